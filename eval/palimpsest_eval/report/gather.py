"""What the report shows of a build, as plain values: read from its tables, its runs and the builds before it."""

from collections.abc import Mapping, Sequence

import polars as pl

from palimpsest.core.ids import JsonObject
from palimpsest.pipeline.build_warnings import build_warnings, warning_lines
from palimpsest.query.request.types import shorten_text
from palimpsest.query.search import STEPS
from palimpsest.store.builds import Build, kept_builds
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.gate.baseline import golden_problem
from palimpsest_eval.gate.health import memory_health
from palimpsest_eval.gate.verdict import CollectionVerdict, GateVerdict
from palimpsest_eval.golden.golden_run import GoldenRun, Miss, by_type
from palimpsest_eval.golden.misses import CAUSES
from palimpsest_eval.golden.questions import Question, Tables, collection_tables, load_questions
from palimpsest_eval.labels.saved_programs import LABELS, calibration, compare_register, confusion, register_path
from palimpsest_eval.metrics import percentiles
from palimpsest_eval.report.charts import graph_chart, spark
from palimpsest_eval.report.page import (
    CollectionSection,
    HeadlineCard,
    ReportPage,
    RetrievedText,
    WorstQuestion,
    read_notes,
)
from palimpsest_eval.report.pictures import Interval

HEADLINES = (
    # key, title, what it means, whether more is better
    ("R@5", "Recall@5", "of what a question needs, the share among the top five", True),
    ("nDCG@10", "nDCG@10", "how high it ranks among the top ten", True),
    ("packed_recall", "Recall after packing", "the share that is in the packed context", True),
    ("packed_all", "All evidence packed", "questions with all that they need in the packed context", True),
    ("evidence_per_1000_tokens", "Evidence per 1,000 tokens", "pieces that a context holds, by its length", True),
    ("irrelevant_tokens", "Irrelevant tokens", "share of the packed context that no evidence is in", False),
    (
        "context_precision",
        "Context precision",
        "share of a context, citations and sources included, that is evidence",
        True,
    ),
    ("context_tokens", "Tokens of a context", "as it is shown, citations and sources included", False),
    ("returned_P@5", "P@5, returned", "relevant among the first five results that a search returns", True),
    ("broad_P@5", "P@5, broad questions", "relevant among the top five, where five or more are relevant", True),
    ("current_fact_recall", "Current facts", "changed facts answered as they are now", True),
    ("stale@5", "Stale@5", "share of the top five that is outdated", False),
    ("duplicate_share", "Repeats@5", "share of the top five that repeats a better result", False),
    ("false_retirement", "False retirement", "what is still true, but retired", False),
    ("citation_validity", "Citations that hold", "quoted lines whose span holds their words", True),
    ("p95_ms", "p95 ms", "95 % of the searches took no longer", False),
)
_MAX_WORST = 20
_MAX_TEXT_CHARS = 320
_TABLES = (
    "documents",
    "document_texts",
    "memories",
    "versions",
    "relations",
    "topics",
    "topic_memories",
    "entities",
    "nodes",
    "edges",
    "rejects",
)


def gather(home: Home, build: Build, verdict: GateVerdict) -> ReportPage:
    """Returns the page's values, most of them by collection: headlines, types, latency, labels, misses, health."""
    manifest = build.manifest
    older = [b for b in kept_builds(home) if b.is_finished and b.build_id < build.build_id]
    history = [(b.build_id, b.manifest.gate.get("metrics", {})) for b in older]
    tables = build.tables(_TABLES)
    verdicts = {v.collection: v for v in verdict.collections}
    collections = [
        _collection(build, name, verdicts.get(name, CollectionVerdict(name, "unjudged")), tables, history)
        for name in build.collections
    ]
    return {
        "build_id": build.build_id,
        "created_at": manifest.created_at,
        "digest": manifest.digest,
        "model": manifest.settings.get("model_id", ""),
        "status": verdict.status,
        "reasons": [(v.collection, r) for v in verdict.collections for r in v.reasons],
        "warnings": [(v.collection, w) for v in verdict.collections for w in v.warnings],
        "known": warning_lines(build_warnings(home, build)),
        "counts": {n: getattr(manifest, n) for n in ("documents", "chunks", "memories", "retired", "rejects")},
        "relations": manifest.relations,
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
    tables: Tables,
    history: Sequence[tuple[str, Mapping[str, float]]],
) -> CollectionSection:
    rows = collection_tables(tables, name) | {"rejects": build.table(name, "rejects")}
    now = {**verdict.means, **verdict.quality, **verdict.percentiles_ms}
    run = verdict.run or GoldenRun(name)
    labelled = compare_register(register_path(data_folder()), rows, name)
    return {
        "name": name,
        "status": verdict.status,
        "queries": verdict.queries,
        "smallest_loss": verdict.smallest_loss,
        "headlines": headlines(name, now, history, verdict.compared),
        "types": types_of(run, verdict.types_before),
        "against": verdict.against,
        "latency": latency(run),
        "confusion": confusion(labelled) if labelled else None,
        "calibration": calibration(labelled),
        "labelled": len(labelled),
        "ragas": run.ragas,
        "worst": worst(run, rows, name),
        "broken": [b.question_id for b in verdict.broken],
        "health": memory_health(rows),
        "graph": graph_chart(rows["nodes"], rows["edges"]),
    }


def headlines(
    collection: str,
    now: Mapping[str, float],
    history: Sequence[tuple[str, Mapping[str, float]]],
    compared: Mapping[str, tuple[float, float]],
) -> list[HeadlineCard]:
    """Returns a card for each headline number that the build has.

    Args:
        collection: name of the collection.
        now: the build's numbers.
        history: id and numbers of the builds before it, oldest first; their names start with `<collection>/`.
        compared: the baseline's numbers and the build's on the same questions, as the gate compares them.
    """
    cards: list[HeadlineCard] = []
    for key, title, explanation, more_is_better in HEADLINES:
        if key not in now:
            continue
        before = [numbers.get(f"{collection}/{key}") for _, numbers in history]
        line = spark([v if v is not None else float("nan") for v in before] + [now[key]])
        was, new = compared.get(key, (None, now[key]))
        ms = key.endswith("_ms")
        change = None if was is None else round(new - was, 1 if ms else 3) or 0.0  # as it is shown: no `-0.000`
        worse = change is not None and change != 0 and (change < 0) == more_is_better
        cards.append(
            HeadlineCard(
                key=key,
                title=title,
                explanation=explanation,
                value=now[key],
                baseline=was,
                change=change,
                worse=worse,
                spark=line,
                ms=ms,
            )
        )
    return cards


def types_of(run: GoldenRun, before: Mapping[str, Mapping[str, float]]) -> list[JsonObject]:
    """Returns the means of R@5, recall after packing and nDCG@10 for each type of question, and the baseline's."""
    means = by_type(run.per_query, run.types, ("R@5", "packed_recall", "nDCG@10"))
    return [{"type": kind, "before": before.get(kind, {}), **values} for kind, values in means.items()]


def latency(run: GoldenRun) -> list[Interval]:
    """Returns p50, p95 and p99 of the whole search and of each step, in the order of the query path."""
    found = {step: percentiles(values) for step in ("total_ms", *STEPS) if (values := run.steps_ms.get(step))}
    return [Interval(step.removesuffix("_ms"), p["p50"], p["p95"], p["p99"]) for step, p in found.items()]


def worst(run: GoldenRun, tables: Tables, collection: str) -> list[WorstQuestion]:
    """Returns the questions that miss most, with what was retrieved, what should have been and where it was lost."""
    is_readable = golden_problem(data_folder(), collection) is None
    questions = {q.id: q for q in load_questions(data_folder(), collection) or ()} if is_readable else {}
    shown = [questions[i] for i in run.missed_questions[:_MAX_WORST] if i in questions]
    misses: dict[str, list[Miss]] = {}
    for miss in run.misses or ():
        misses.setdefault(miss.question_id, []).append(miss)
    ids = {h.memory_id for q in shown for h in run.results.get(q.id, ())}
    rows = tables["memories"].filter(pl.col("memory_id").is_in(sorted(ids)))
    texts = dict(rows.select("memory_id", "text").iter_rows())
    return [_worst_question(q, run, misses.get(q.id, []), texts) for q in shown]


def _worst_question(
    question: Question, run: GoldenRun, misses: Sequence[Miss], texts: Mapping[str, str]
) -> WorstQuestion:
    metrics = run.per_query[question.id]
    return WorstQuestion(
        id=question.id,
        question=question.question,
        type=question.type,
        user=question.user,
        as_of=question.as_of,
        metrics={m: metrics[m] for m in ("R@5", "nDCG@10", "packed_recall", "stale@5")},
        wanted=[{"uri": e.uri, "quote": e.quote} for e in question.evidence],
        misses=misses,
        got=[
            RetrievedText(
                source=h.source,
                relevant=h.relevant,
                stale=h.stale,
                text=shorten_text(texts.get(h.memory_id, ""), _MAX_TEXT_CHARS),
            )
            for h in run.results.get(question.id, ())
        ],
    )
