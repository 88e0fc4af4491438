"""What the report tells of a build, as plain values: read from its tables, its runs and the builds before it."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from palimpsest.eval.gate.health import memory_health
from palimpsest.eval.gate.verdict import CollectionVerdict, GateVerdict
from palimpsest.eval.golden.build_tables import collection_tables
from palimpsest.eval.golden.by_type import by_type
from palimpsest.eval.golden.golden_run import GoldenRun, Miss
from palimpsest.eval.golden.misses import CAUSES
from palimpsest.eval.golden.questions import Question, golden_path, load_golden
from palimpsest.eval.labels.register import LABELS, calibration, compare_register, confusion, register_path
from palimpsest.eval.metrics.measures import percentiles
from palimpsest.eval.report.charts import histogram, spark
from palimpsest.eval.report.notes import read_notes
from palimpsest.query.reader import STEPS
from palimpsest.store.builds import Build, kept
from palimpsest.store.home import Home, data_folder

HEADLINES = (
    # key, title, what it says, whether more is better
    ("R@5", "Recall@5", "of what a question needs, the share among the top five", True),
    ("nDCG@10", "nDCG@10", "how high up it stands among the top ten", True),
    ("packed_recall", "Recall after packing", "the share that is in the packed context", True),
    ("current_fact_recall", "Current facts", "changed facts told as they are now", True),
    ("stale@5", "Stale@5", "share of the top five that is outdated", False),
    ("duplicate_share", "Repeats@5", "share of the top five that says what a better one said", False),
    ("false_retirement", "False retirement", "what is still true, but retired", False),
    ("citation_validity", "Citations that hold", "quoted lines whose span holds their words", True),
    ("p95_ms", "p95 ms", "95 % of the searches took no longer", False),
)
_WORST = 20
_TEXT_CHARS = 320
_TABLES = (
    "documents",
    "document_texts",
    "memories",
    "versions",
    "relations",
    "topics",
    "topic_memories",
    "entities",
    "rejects",
)


def gather(home: Home, build: Build, verdict: GateVerdict) -> dict[str, Any]:
    """Returns the page's values, most of them by collection: headlines, types, latency, labels, misses, health."""
    manifest = build.manifest
    older = [b for b in kept(home) if b.manifest and b.build_id < build.build_id]
    history = [(b.build_id, b.manifest.get("gate", {}).get("metrics", {})) for b in older]
    tables = build.tables(_TABLES)
    verdicts = {v.collection: v for v in verdict.collections}
    collections = [
        _collection(build, name, verdicts.get(name, CollectionVerdict(name, "unjudged")), tables, history)
        for name in build.collections
    ]
    return {
        "build_id": build.build_id,
        "created_at": manifest.get("created_at", ""),
        "digest": manifest.get("digest", ""),
        "model": manifest.get("settings", {}).get("model_id", ""),
        "status": verdict.status,
        "reasons": [(v.collection, r) for v in verdict.collections for r in v.reasons],
        "warnings": [(v.collection, w) for v in verdict.collections for w in v.warnings],
        "counts": {n: manifest.get(n, 0) for n in ("documents", "chunks", "memories", "retired", "rejects")},
        "relations": manifest.get("relations", {}),
        "builds": [b for b, _ in history] + [build.build_id],
        "collections": collections,
        "notes": read_notes(home),
        "causes": CAUSES,
        "labels": LABELS,
    }


def _collection(
    build: Build,
    name: str,
    verdict: CollectionVerdict,
    tables: Mapping[str, pl.DataFrame],
    history: Sequence[tuple[str, Mapping[str, float]]],
) -> dict[str, Any]:
    own = collection_tables(tables, name) | {"rejects": build.table(name, "rejects")}
    now = {**verdict.means, **verdict.quality, **verdict.percentiles_ms}
    run = verdict.run or GoldenRun(name)
    labelled = compare_register(register_path(data_folder()), own, name)
    return {
        "name": name,
        "status": verdict.status,
        "queries": verdict.queries,
        "smallest_loss": verdict.smallest_loss,
        "headlines": headlines(name, now, history),
        "types": types_of(run, verdict.types_before),
        "against": verdict.against,
        "latency": latency(run),
        "confusion": confusion(labelled) if labelled else None,
        "calibration": calibration(labelled),
        "labelled": len(labelled),
        "worst": worst(run, own, name),
        "broken": [b.question_id for b in verdict.broken],
        "health": memory_health(own),
    }


def headlines(
    collection: str, now: Mapping[str, float], history: Sequence[tuple[str, Mapping[str, float]]]
) -> list[dict[str, Any]]:
    """Returns a card for each headline number that the build has: its value, the one before, the line over builds."""
    cards = []
    for key, title, says, more in HEADLINES:
        if key not in now:
            continue
        before = [told.get(f"{collection}/{key}") for _, told in history]
        line = spark([v if v is not None else float("nan") for v in before] + [now[key]])
        last = next((v for v in reversed(before) if v is not None), None)
        change = None if last is None else now[key] - last
        worse = change is not None and abs(change) > 1e-9 and (change < 0) == more
        cards.append(
            {
                "key": key,
                "title": title,
                "says": says,
                "value": now[key],
                "change": change,
                "worse": worse,
                "spark": line,
                "ms": key.endswith("_ms"),
            }
        )
    return cards


def types_of(run: GoldenRun, before: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Returns the means of R@5, recall after packing and nDCG@10 for each type of question, and the baseline's."""
    told = by_type(run.per_query, run.types, ("R@5", "packed_recall", "nDCG@10"))
    return [{"type": kind, "before": before.get(kind, {}), **values} for kind, values in told.items()]


def latency(run: GoldenRun) -> list[dict[str, Any]]:
    """Returns a histogram for the whole search and for each step, in the order of the query path."""
    told = []
    for step in ("total_ms", *STEPS):
        values = run.steps_ms.get(step)
        if values:
            told.append({"step": step.removesuffix("_ms"), "histogram": histogram(values, percentiles(values))})
    return told


def worst(run: GoldenRun, tables: Mapping[str, pl.DataFrame], collection: str) -> list[dict[str, Any]]:
    """Returns the questions that miss most, with what was retrieved, what should have been and where it was lost."""
    ids = run.missed_questions[:_WORST]
    questions = {q.id: q for q in load_golden(golden_path(data_folder(), collection)) or () if q.id in ids}
    asked = [questions[i] for i in ids if i in questions]
    causes: dict[str, list[Miss]] = {}
    for miss in run.misses or ():
        causes.setdefault(miss.question_id, []).append(miss)
    wanted = {h.memory_id for q in asked for h in run.results.get(q.id, ())}
    rows = tables["memories"].filter(pl.col("memory_id").is_in(sorted(wanted)))
    texts = dict(rows.select("memory_id", "text").iter_rows())
    return [_told(q, run, causes.get(q.id, []), texts) for q in asked]


def _told(question: Question, run: GoldenRun, causes: Sequence[Any], texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.question,
        "type": question.type,
        "user": question.user,
        "as_of": question.as_of,
        "metrics": {m: run.per_query[question.id][m] for m in ("R@5", "nDCG@10", "packed_recall", "stale@5")},
        "wanted": [{"uri": e.uri, "quote": e.quote} for e in question.evidence],
        "misses": causes,
        "got": [
            {"source": h.source, "relevant": h.relevant, "stale": h.stale, "text": _short(texts.get(h.memory_id, ""))}
            for h in run.results.get(question.id, ())
        ],
    }


def _short(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= _TEXT_CHARS else folded[: _TEXT_CHARS - 1] + "…"
