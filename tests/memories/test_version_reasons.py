"""Why a memory is not latest: what `versions` decided, with the evidence that it decided by."""

import json
import random

import polars as pl

from palimpsest.memories import version_reasons as module
from palimpsest.memories.version_reasons import version_reasons
from palimpsest.relations.labelers.label_pairs import label_pairs, relation_id
from palimpsest.relations.labelers.label_types import LabelResult
from palimpsest.relations.versions import versions
from palimpsest.store.decisions import Decisions, RelationOverride
from palimpsest.store.tables import conform, empty
from tests.memories.frames import by_text, chunk, day, document, formed

SPANS = {"newer": [0, 5], "older": [3, 9]}


class UpdateLabeler:
    """A labeler of the test's own."""

    name, program_hash, reads_together = "says", "p", False

    def label(self, pairs):
        evidence = {"rule": "slot:day", "from": "Monday", "to": "Friday", "p": {"UPDATE": 0.9}, **SPANS}
        return [LabelResult("UPDATE", 0.9, evidence) for _ in pairs]


def reasons(inputs, relations, stated=None, decisions=None):
    links = empty("document_relations") if stated is None else conform("document_relations", pl.DataFrame(stated))
    state = versions(inputs.memories, relations, inputs.documents, links, decisions)
    tables = {"memories": inputs.memories, "documents": inputs.documents, "relations": relations, "versions": state}
    tables["rejects"] = empty("rejects")
    found = version_reasons(tables)
    assert found.equals(version_reasons({name: table.reverse() for name, table in tables.items()}))
    return {m: json.loads(line) for m, line in found.iter_rows()}


def two():
    a, b = document("a.md", source_time=day(1)), document("b.md", source_time=day(9))
    inputs = formed([a, b], [chunk(a, "The launch is on Monday."), chunk(b, "The launch is on Friday.")])
    ids = by_text(inputs.memories)
    older, newer = ids["The launch is on Monday."], ids["The launch is on Friday."]
    scope = {
        "collection": ["c"], "user_id": ["u"], "project_id": [""], "newer_id": [newer], "older_id": [older],
        "score": [0.9],
    }  # fmt: skip
    return inputs, pl.DataFrame(scope), newer, older


def test_an_update_is_reported_with_its_relation_and_evidence():
    inputs, pairs, newer, older = two()
    relations, _ = label_pairs(pairs, inputs.memories, UpdateLabeler())
    assert reasons(inputs, relations) == {
        older: {
            "kind": "updated",
            "by": newer,
            "relation_id": relation_id(newer, older),
            "label": "UPDATE",
            "confidence": 0.9,
            "labeler": "says",
            "rule": "slot:day",
            "from": "Monday",
            "to": "Friday",
            **SPANS,
        }
    }


def test_a_persons_decision_is_reported_with_its_day_whether_it_retires_or_keeps():
    inputs, pairs, newer, older = two()
    for label, kind in (("UPDATE", "updated"), ("NONE", "kept")):
        decision = RelationOverride(relation_id(newer, older), newer, older, label, "2026-02-03T10:00:00+00:00")
        decisions = Decisions(relations=(decision,))
        relations, _ = label_pairs(pairs, inputs.memories, UpdateLabeler(), None, decisions)
        found = reasons(inputs, relations, decisions=decisions)[older]
        assert (found["kind"], found["labeler"], found["decided_at"]) == (kind, "person", decision.at)


def test_an_edit_a_replaced_document_and_a_missing_source_are_distinguished():
    first = document("a.md", seq=1, current=False, source_time=day(1))
    second = document("a.md", seq=2, source_time=day(5))
    first["superseded_by"] = second["document_id"]
    old, new = document("rules-1.md", source_time=day(2)), document("rules-2.md", source_time=day(7), title="Rules")
    gone = document("gone.md", current=False, source_time=day(3))
    texts = {"edited out": first, "still here": second, "old rule": old, "new rule": new, "lost": gone}
    inputs = formed([first, second, old, new, gone], [chunk(d, f"It is {t}.") for t, d in texts.items()])
    stated = {
        "collection": ["c"],
        "user_id": ["u"],
        "newer_uri": ["rules-2.md"],
        "older_uri": ["rules-1.md"],
        "label": ["UPDATE"],
    }
    ids = by_text(inputs.memories)
    edited = {"kind": "edited", "by": second["document_id"], "uri": "a.md", "at": day(5).isoformat()}
    replaced = {"kind": "replaced", "by": new["document_id"], "uri": "rules-2.md", "title": "Rules"}
    assert reasons(inputs, empty("relations"), stated) == {
        ids["It is edited out."]: edited,
        ids["It is old rule."]: replaced | {"at": day(7).isoformat()},
        ids["It is lost."]: {"kind": "vanished"},
    }


def test_relations_that_are_left_out_are_no_reasons(monkeypatch):
    rng = random.Random(5)
    ids = [f"m{i}" for i in range(12)]
    evidence = (
        None, "{}", '{"instead_of": "UPDATE"}', '{"instead_of": "UPDATE", "veto": "x"}', '{"rule": "low trust"}',
    )  # fmt: skip
    kinds = set()
    for _ in range(40):
        pairs = sorted({tuple(rng.sample(ids, 2)) for _ in range(25)})
        relations = [
            {
                "newer_id": newer,
                "older_id": older,
                "relation_id": f"{newer}-{older}",
                "label": rng.choice(("UPDATE", "EXTEND", "DERIVE", "NONE")),
                "labeler": rng.choice(("offline", "person")),
                "consequence": rng.choice(("disputed", None)),
                "part": rng.choice(("[[0, 2]]", None)),
                "likelihood": rng.choice((0.01, 0.2, None)),
                "evidence": rng.choice(evidence),
            }
            for newer, older in pairs
        ]
        by = {i: rng.choice((None, *ids)) for i in ids}
        state = [{"memory_id": i, "is_latest": rng.random() < 0.7, "superseded_by": by[i]} for i in ids]
        tables = {
            "documents": conform(
                "documents", pl.DataFrame([{"document_id": "d", "uri": "d.md", "title": "D", "is_current": True}])
            ),
            "memories": conform("memories", pl.DataFrame([{"memory_id": i, "document_id": "d"} for i in ids])),
            "versions": conform("versions", pl.DataFrame(state, infer_schema_length=None)),
            "relations": conform("relations", pl.DataFrame(relations, infer_schema_length=None)),
            "rejects": empty("rejects"),
        }
        found = version_reasons(tables)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_read_relations", lambda all_relations, _: all_relations)
            assert found.equals(version_reasons(tables))
        kinds |= {json.loads(reason)["kind"] for reason in found["reason"]}
    assert kinds == {"updated", "vanished", "kept", "part", "disputed", "later", "derived"}
