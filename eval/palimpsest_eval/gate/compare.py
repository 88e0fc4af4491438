"""What changed between two builds: memories, relations, metrics, and the questions that moved."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict

import numpy as np
import polars as pl

from palimpsest.core.files import counted
from palimpsest.core.ids import SCOPE, JsonObject, JsonValue
from palimpsest.store.tables import empty
from palimpsest_eval.gate.baseline import changed_code, changed_settings
from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.golden.questions import Tables
from palimpsest_eval.metrics import loss_probability, paired_interval

SHOWN = 20
_MOVED = ("R@5", "nDCG@10", "packed_recall", "stale@5")
_TEXT_CHARS = 100
_EPSILON = 1e-9

Runs = Mapping[str, GoldenRun | Mapping[str, Any]]
Settings = Mapping[str, Mapping[str, JsonValue]]


def compare(
    tables_a: Tables,
    tables_b: Tables,
    gate_a: Runs | None = None,
    gate_b: Runs | None = None,
    shown: int = SHOWN,
    settings_a: Settings | None = None,
    settings_b: Settings | None = None,
) -> JsonObject:
    """Returns what build B has that A had not, and the reverse; counts are complete, examples the first `shown` by id.

    Args:
        tables_a: documents, memories, versions and relations of the older build; one that is not there counts as empty.
        tables_b: the same of the newer build.
        gate_a: the older build's golden runs by collection (or their JSON); None where it was not judged.
        gate_b: the newer build's.
        shown: examples of each change.
        settings_a: the older build's settings by collection, as `build_settings` gives them.
        settings_b: the newer build's.
    """
    a, b = (
        {
            name: tables[name] if name in tables else empty(name)
            for name in ("documents", "memories", "versions", "relations")
        }
        for tables in (tables_a, tables_b)
    )
    return {
        "documents": _documents(a, b, shown),
        "memories": _memories(a, b, shown),
        "relations": _relations(a, b, shown),
        "metrics": _metrics(_runs(gate_a), _runs(gate_b), shown),
        "settings": _settings(settings_a or {}, settings_b or {}),
    }


def _settings(a: Settings, b: Settings) -> JsonObject:
    """Returns what differs in the collections of both builds: settings by collection, and parts of the code."""
    shared = sorted(a.keys() & b.keys())
    changed = [
        {"collection": c, **asdict(change), "text": change.text(c)}
        for c in shared
        for change in changed_settings(a[c], b[c])
    ]
    return {"changed": changed, "code": sorted({part for c in shared for part in changed_code(a[c], b[c])})}


class MeasureChange(TypedDict):
    """The means of a measure in two builds over the questions of both, the change, its 95 % interval and p-values.

    `p_loss` is how often chance alone gives as low a change, `p_gain` as high a one.
    """

    measure: str
    queries: int
    a: float
    b: float
    change: float
    low: float
    high: float
    p_loss: float
    p_gain: float


class MovedQuestion(TypedDict):
    """A question whose measure changed, with the sources of its top results in both builds."""

    id: str
    question: str
    a: float
    b: float
    before: list[str]
    now: list[str]


def significance(a: GoldenRun, b: GoldenRun, measures: Sequence[str] = _MOVED) -> list[MeasureChange]:
    """Returns how each measure changed over the questions of both runs; nothing without such questions."""
    shared = sorted(a.per_query.keys() & b.per_query.keys())
    rows: list[MeasureChange] = []
    for m in measures:
        old, new = ([run.per_query[q][m] for q in shared] for run in (a, b))
        if not shared:
            continue
        change = np.round(np.asarray(new) - np.asarray(old), 6)
        low, high = paired_interval(old, new)
        rows.append(
            {
                "measure": m,
                "queries": len(shared),
                "a": float(np.mean(old)),
                "b": float(np.mean(new)),
                "change": float(change.mean()),
                "low": low,
                "high": high,
                "p_loss": loss_probability(change),
                "p_gain": loss_probability(-change),
            }
        )
    return rows


def moved_questions(a: GoldenRun, b: GoldenRun, measure: str = "R@5") -> list[MovedQuestion]:
    """Returns the questions whose measure changed, the worst losses first, with the top results of both builds."""
    shared = sorted(a.per_query.keys() & b.per_query.keys())
    moved = [(b.per_query[q][measure] - a.per_query[q][measure], q) for q in shared]
    return [
        {
            "id": q,
            "question": b.questions.get(q, ""),
            "a": a.per_query[q][measure],
            "b": b.per_query[q][measure],
            "before": [h.source for h in a.results.get(q, ())],
            "now": [h.source for h in b.results.get(q, ())],
        }
        for change, q in sorted(moved)
        if abs(change) > _EPSILON
    ]


def compare_text(difference: Mapping[str, Any]) -> str:
    """Returns the comparison for a terminal."""
    settings = difference["settings"]
    lines = [f"settings changed: {change['text']}" for change in settings["changed"]]
    if settings["code"]:
        lines.append(f"code changed: {', '.join(settings['code'])}")
    for kind in ("documents", "memories", "relations"):
        listed = {name: c for name, c in difference[kind].items() if isinstance(c, Mapping) and "examples" in c}
        lines.append(f"{kind}: " + ", ".join(f"{name} {c['count']}" for name, c in listed.items()))
        for name, change in listed.items():
            lines += [f"  {name}: {_example(example)}" for example in change["examples"]]
            if (more := change["count"] - len(change["examples"])) > 0:
                lines.append(f"  {name}: and {more} more")
    for collection, found in difference["metrics"].items():
        if "means" not in found:
            lines.append(f"metrics of {collection}: {found['note']}")
            continue
        lines.append(f"metrics of {collection} ({counted(found['queries'], 'question')} in both):")
        lines += [f"  {m}: {v['a']:.3f} -> {v['b']:.3f} ({v['b'] - v['a']:+.3f})" for m, v in found["means"].items()]
        for moved in found["moved"]["examples"]:
            values = ", ".join(f"{m} {v['a']:.2f} -> {v['b']:.2f}" for m, v in moved["metrics"].items())
            lines.append(f"  {moved['id']} {moved['question']}: {values}")
        if (more := found["moved"]["count"] - len(found["moved"]["examples"])) > 0:
            lines.append(f"  and {more} more")
    return "\n".join(lines)


def _example(example: Mapping[str, Any]) -> str:
    return "  ".join(str(v) for v in example.values() if v not in (None, ""))


def _listed(rows: pl.DataFrame, shown: int, *sort: str) -> JsonObject:
    return {"count": rows.height, "examples": rows.sort(sort or rows.columns).head(shown).to_dicts()}


def _documents(a: Tables, b: Tables, shown: int) -> JsonObject:
    key = [*SCOPE, "uri", "session_id"]
    old, new = (t["documents"].filter(pl.col("is_current").fill_null(True)).select(*key, "document_id") for t in (a, b))
    both = old.join(new, on=key, how="inner", nulls_equal=True)
    return {
        "added": _listed(new.join(old, on=key, how="anti", nulls_equal=True).select(key), shown),
        "removed": _listed(old.join(new, on=key, how="anti", nulls_equal=True).select(key), shown),
        "changed": _listed(both.filter(pl.col("document_id") != pl.col("document_id_right")).select(key), shown),
    }


def _memories(a: Tables, b: Tables, shown: int) -> JsonObject:
    old, new = _memory_rows(a), _memory_rows(b)
    both = old.select("memory_id", was_latest="is_latest").join(new, on="memory_id", how="inner")
    retired = both.filter(pl.col("was_latest") & ~pl.col("is_latest")).drop("was_latest", "is_latest")
    restored = both.filter(~pl.col("was_latest") & pl.col("is_latest")).drop("was_latest", "is_latest", "superseded_by")
    plain = ("is_latest", "superseded_by")
    return {
        "a": old.height,
        "b": new.height,
        "added": _listed(new.join(old, on="memory_id", how="anti").drop(plain), shown, "memory_id"),
        "removed": _listed(old.join(new, on="memory_id", how="anti").drop(plain), shown, "memory_id"),
        "retired": _listed(retired, shown, "memory_id"),
        "restored": _listed(restored, shown, "memory_id"),
    }


def _memory_rows(t: Tables) -> pl.DataFrame:
    source = t["documents"].select("document_id", "uri").unique("document_id")
    versions = t["versions"].select("memory_id", "is_latest", "superseded_by")
    return (
        t["memories"]
        .join(source, on="document_id", how="left")
        .join(versions, on="memory_id", how="left")
        .select(
            "memory_id",
            *SCOPE,
            "uri",
            pl.col("text").str.replace_all(r"\s+", " ").str.slice(0, _TEXT_CHARS).alias("text"),
            pl.col("is_latest").fill_null(True),
            "superseded_by",
        )
    )


def _relations(a: Tables, b: Tables, shown: int) -> JsonObject:
    key = ["newer_id", "older_id"]
    columns = [*SCOPE, *key, "label"]
    old, new = (t["relations"].filter(pl.col("label") != "NONE").select(columns).unique() for t in (a, b))
    # A pair may have several labels: it was relabelled where the sets of labels differ.
    labels = [r.group_by(*SCOPE, *key).agg(pl.col("label").unique().sort().str.join("+")) for r in (old, new)]
    both = labels[0].rename({"label": "from"}).join(labels[1].rename({"label": "to"}), on=[*SCOPE, *key])
    return {
        "a": _by_label(old),
        "b": _by_label(new),
        "added": _listed(labels[1].join(labels[0], on=key, how="anti"), shown, *key),
        "removed": _listed(labels[0].join(labels[1], on=key, how="anti"), shown, *key),
        "relabelled": _listed(both.filter(pl.col("from") != pl.col("to")), shown, *key),
    }


def _by_label(relations: pl.DataFrame) -> dict[str, int]:
    return dict(relations.group_by("label").len().sort("label").iter_rows())


def _runs(gate: Runs | None) -> dict[str, GoldenRun]:
    return {c: run if isinstance(run, GoldenRun) else GoldenRun.from_json(run) for c, run in (gate or {}).items()}


def _metrics(gate_a: Mapping[str, GoldenRun], gate_b: Mapping[str, GoldenRun], shown: int) -> JsonObject:
    found: JsonObject = {}
    for collection in sorted(gate_a.keys() | gate_b.keys()):
        a, b = gate_a.get(collection), gate_b.get(collection)
        if a is None or b is None:
            found[collection] = {"note": f"judged only in build {'B' if a is None else 'A'}"}
        elif not (shared := sorted(a.per_query.keys() & b.per_query.keys())):
            found[collection] = {"note": "no question was judged in both"}
        else:
            found[collection] = _moved(a, b, shared, shown)
    return found


def _moved(a: GoldenRun, b: GoldenRun, questions: Sequence[str], shown: int) -> JsonObject:
    names = sorted(set.intersection(*(set(r.per_query[q]) for q in questions for r in (a, b))))
    means = {
        m: {side: sum(r.per_query[q][m] for q in questions) / len(questions) for side, r in (("a", a), ("b", b))}
        for m in names
    }
    moved: list[tuple[float, str, JsonObject]] = []
    for q in questions:
        values = {m: {"a": a.per_query[q][m], "b": b.per_query[q][m]} for m in _MOVED if m in names}
        changed = {m: v for m, v in values.items() if abs(v["a"] - v["b"]) > _EPSILON}
        if changed:
            gain = sum((v["b"] - v["a"]) * (-1 if m == "stale@5" else 1) for m, v in changed.items())
            moved.append((gain, q, {"id": q, "question": b.questions.get(q, ""), "metrics": changed}))
    moved.sort(key=lambda x: x[:2])  # the worst losses first
    return {
        "queries": len(questions),
        "means": means,
        "latency_ms": {"a": dict(a.latency_ms), "b": dict(b.latency_ms)},
        "moved": {"count": len(moved), "examples": [example for _, _, example in moved[:shown]]},
    }
