import json

import polars as pl

from palimpsest_eval.gate.compare import compare, compare_text
from palimpsest_eval.golden.golden_run import GoldenRun
from tests.eval.home import rows, tables


def later_build():
    """m1 was restored, m2 retired, m6 is gone; m7 is new; the EXTEND became an UPDATE."""
    b = tables()
    latest = pl.when(pl.col("memory_id") == "m1").then(True).when(pl.col("memory_id") == "m2").then(False)
    b["versions"] = b["versions"].with_columns(is_latest=latest.otherwise("is_latest"))
    b["memories"] = b["memories"].filter(pl.col("memory_id") != "m6")
    scope = {"collection": "notes", "user_id": "ana"}
    b["memories"] = pl.concat([b["memories"], rows("memories", {"memory_id": "m7", **scope, "text": "new\nwords"})])
    label = pl.when(pl.col("relation_id") == "r2").then(pl.lit("UPDATE")).otherwise("label")
    b["relations"] = b["relations"].with_columns(label=label).filter(pl.col("relation_id") != "r1")
    b["documents"] = b["documents"].with_columns(document_id=pl.col("document_id").replace({"d2": "d9"}))
    return b


def gate(**queries):
    per_query = {q: {"R@5": v, "nDCG@10": v, "packed_recall": v, "stale@5": 0.0} for q, v in queries.items()}
    return {"notes": GoldenRun("notes", per_query=per_query, questions={q: f"{q}?" for q in queries})}


def test_changes_are_reported_with_counts_and_examples_as_json_and_as_text():
    got = compare(tables(), later_build())
    memories = got["memories"]
    assert [x["memory_id"] for x in memories["added"]["examples"]] == ["m7"]
    assert memories["added"]["examples"][0]["text"] == "new words"
    assert [x["memory_id"] for x in memories["removed"]["examples"]] == ["m6"]
    assert [x["memory_id"] for x in memories["retired"]["examples"]] == ["m2"]
    assert [x["memory_id"] for x in memories["restored"]["examples"]] == ["m1"]
    assert got["documents"]["changed"]["examples"][0]["uri"] == "news.md"
    relations = got["relations"]
    assert (relations["a"], relations["b"]) == ({"EXTEND": 1, "UPDATE": 1}, {"UPDATE": 1})
    assert relations["removed"]["examples"][0]["newer_id"] == "m3"
    assert relations["relabelled"]["examples"][0]["from"] == "EXTEND"
    assert relations["relabelled"]["examples"][0]["to"] == "UPDATE"
    json.dumps(got)
    text = compare_text(compare(tables(), later_build(), gate(a=1.0), gate(a=0.0), shown=0))
    assert "memories: added 1, removed 1, retired 1, restored 1" in text
    assert "  added: and 1 more" in text
    assert "R@5: 1.000 -> 0.000 (-1.000)" in text
    assert "  and 1 more" in text
    text = compare_text(compare(tables(), later_build()))
    assert "  retired: m2  notes  ana  plan.md" in text


def test_equal_builds_differ_in_nothing_and_runs_may_come_as_json_or_not_at_all():
    got = compare(tables(), {name: t.reverse() for name, t in tables().items()}, gate(q=1.0), gate(q=1.0))
    changes_by_kind = [c for kind in ("documents", "memories", "relations") for c in got[kind].values()]
    changes = [c["count"] for c in changes_by_kind if isinstance(c, dict) and "count" in c]
    assert len(changes) == 10
    assert not any(changes)
    assert got["metrics"]["notes"]["moved"]["count"] == 0
    a, b = gate(a=1.0), gate(a=0.0)
    as_json = {c: json.loads(json.dumps(r.to_json())) for c, r in a.items()}
    assert compare(tables(), tables(), as_json, b) == compare(tables(), tables(), a, b)
    assert compare(tables(), tables())["metrics"] == {}
    assert compare(tables(), tables(), None, b)["metrics"]["notes"] == {"note": "judged only in build B"}
    assert "no question" in compare(tables(), tables(), gate(x=1.0), b)["metrics"]["notes"]["note"]


def test_the_questions_that_moved_are_named_worst_first():
    got = compare(tables(), tables(), gate(a=1.0, b=1.0, c=0.5, old=1.0), gate(a=0.5, b=0.0, c=1.0, new=1.0))
    metrics = got["metrics"]["notes"]
    assert metrics["queries"] == 3
    assert [m["id"] for m in metrics["moved"]["examples"]] == ["b", "a", "c"]
    assert metrics["means"]["R@5"] == {"a": 2.5 / 3, "b": 0.5}
    assert metrics["moved"]["examples"][0]["metrics"]["R@5"] == {"a": 1.0, "b": 0.0}
