"""Results of which something newer was said: what is outdated is cut or comes after what disputes it, in one scope."""

import json

import numpy as np
import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.context.changes import kept_spans
from palimpsest.query.reader import Reader
from palimpsest.query.result import memory_json, memory_text, results_text
from tests.query.made import at, memory, rows, tables, write

ANA = Scope("notes", "ana")
OLD, NEW = "Team leads may approve up to 2,000 euros.", "Team leads sign for up to 5,000 euros now, no more forms."
TWO = "We rent a flat in Kothrud, and my desk is at Acme."
MEMORIES = [
    memory("m1", OLD, observed_at=at("2024-01-01")),
    memory("m2", NEW, observed_at=at("2024-06-01"), type="task"),
    memory("m3", "Team leads meet on Mondays.", observed_at=at("2024-07-01")),
    memory("m4", "Team leads approve nothing over 900 euros.", observed_at=at("2024-02-01")),
    memory("m5", "Team leads approve all.", observed_at=at("2024-08-01"), user_visible=False),
    memory("m6", TWO, observed_at=at("2024-01-02")),
    memory("m7", "The last box is unpacked in Nashik.", observed_at=at("2024-05-02")),
    memory("b1", "Ben approves 10 euros.", user_id="ben", observed_at=at("2024-09-01")),
]
QUESTION = "What may team leads approve?"


def relation(newer, older, label="NONE", **more):
    columns = {"labeler": "offline", "evidence": {"rule": "model"}} | more
    ids = {"relation_id": f"{newer}?{older}", "newer_id": newer, "older_id": older, "label": label}
    scope = {"collection": "notes", "user_id": "ana"}
    return {**ids, **scope, "confidence": 0.4, **columns, "evidence": json.dumps(columns["evidence"])}


def disputed(newer, older, **more):
    return relation(newer, older, **{"consequence": "disputed", "likelihood": 0.5} | more)


def indexed(path, *relations, updates=(), more=()):
    made = tables([*MEMORIES, *more], updates)
    write(made | {"relations": pl.concat([made["relations"], rows("relations", *relations)], how="diagonal")}, path)
    return path


def search(index, question=QUESTION, k=10, **filters):
    with open_index(index) as reader:
        return reader.search(question, ANA, k=k, **filters)


def disputes(index, **filters):
    return {m.memory_id: m.disputed_by.memory_id for m in search(index, **filters).memories if m.disputed_by}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes")
    return indexed(folder / "i.duckdb", disputed("m2", "m1"), disputed("m4", "m1", likelihood=0.4))


def test_a_disputed_memory_names_the_newest_that_disputes_it_and_comes_after_it(index):
    found = search(index)
    ranks = [m.memory_id for m in found.memories]
    older = found.memories[ranks.index("m1")]
    assert older.disputed_by.memory_id == "m2" and [n.memory_id for n in older.later] == ["m4"]
    assert (older.disputed_by.text, older.disputed_by.why) == (NEW, "uncertain")
    assert ranks.index("m2") < ranks.index("m1") and ranks.index("m4") < ranks.index("m1")


def test_json_text_and_context_say_so(index):
    found = search(index)
    as_json = {m["memory_id"]: m for m in found.to_json()["memories"]}
    assert as_json["m1"]["disputed_by"] == {
        "memory_id": "m2",
        "text": NEW,
        "observed_at": "2024-06-01T00:00:00+00:00",
        "relation_id": "m2?m1",
        "why": "uncertain",
        "likelihood": 0.5,
        "part": [],
    }
    assert "(2024-06-01, m2, uncertain, 0.50 that it ended)" in results_text(found, explain=True)
    assert as_json["m2"]["disputed_by"] is None and not as_json["m1"]["is_cut"]
    assert f"     disputed by: {NEW}  (2024-06-01, m2)" in results_text(found)
    assert f"- (2024-01-01, disputed by [memory:m2]) {OLD} [memory:m1]" in found.context_with("full")


def test_one_result_is_never_the_disputed_one(index):
    assert [m.memory_id for m in search(index, question=OLD, k=1).memories] == ["m2"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"types": ["document"]}, {"m1": "m4"}),
        ({"until": "2024-03-01"}, {"m1": "m4"}),
        ({"as_of": "2024-03-01"}, {"m1": "m4"}),
        ({"until": "2024-01-15"}, {}),
        ({"as_of": "2024-01-15"}, {}),
    ],
)
def test_a_text_that_the_filters_exclude_is_never_returned(index, filters, expected):
    assert disputes(index, **filters) == expected
    if not expected:
        found = search(index, **filters)
        assert "m2" not in json.dumps(found.to_json()) and NEW not in results_text(found)


def test_hidden_memories_and_those_of_other_users_dispute_nothing(tmp_path):
    index = indexed(tmp_path / "i.duckdb", disputed("m5", "m1"), disputed("b1", "m1"))
    assert disputes(index) == {}
    assert disputes(index, include_hidden=True) == {"m1": "m5"}


def test_what_a_person_decided_or_what_was_replaced_is_not_disputed(tmp_path):
    decided = disputed("m2", "m1", labeler="person", consequence=None)
    index = indexed(tmp_path / "i.duckdb", decided, disputed("m2", "m4"), updates=[("m3", "m4")])
    assert disputes(index, history=True) == {}


@pytest.mark.parametrize(
    "filters", [{"history": True}, {"as_of": "2024-12-01"}, {"strategy": "flat"}, {"strategy": "words"}]
)
def test_other_times_all_versions_and_searches_without_links_keep_their_order(index, tmp_path, filters):
    plain = indexed(tmp_path / "i.duckdb")
    ranks = [[m.memory_id for m in search(i, question=OLD, **filters).memories] for i in (index, plain)]
    assert ranks[0] == ranks[1]


def test_a_part_that_ended_is_cut_and_what_ended_it_stands_beside(tmp_path):
    start = TWO.index("We rent")
    part = [[start, TWO.index("and my")]]
    ended = relation("m7", "m6", "UPDATE", consequence="superseded", part=json.dumps(part), likelihood=0.9)
    index = indexed(tmp_path / "i.duckdb", ended)
    found = search(index, "Where is my desk?")
    result = next(m for m in found.memories if m.memory_id == "m6")
    assert result.text == "[…] and my desk is at Acme." and result.is_cut and result.is_latest
    assert [(n.memory_id, n.why) for n in result.later] == [("m7", "part")]
    assert "Kothrud" not in found.context and "Nashik" in found.context
    whole = next(m for m in search(index, "Where is my desk?", history=True).memories if m.memory_id == "m6")
    assert whole.text == TWO and not whole.is_cut
    before = search(index, "Where is my desk?", as_of="2024-03-01").memories
    assert next(m for m in before if m.memory_id == "m6").text == TWO


@pytest.mark.parametrize(
    ("question", "first"), [("Where do we rent a flat?", "m7"), ("Which company is my desk at?", "m6")]
)
def test_what_ended_a_part_is_first_for_questions_about_that_part_alone(tmp_path, question, first):
    part = json.dumps([[0, TWO.index(", and my")]])
    ended = relation("m7", "m6", "UPDATE", consequence="superseded", part=part, likelihood=0.9)
    found = search(indexed(tmp_path / "i.duckdb", ended), question)
    assert next(m.memory_id for m in found.memories if m.memory_id in ("m6", "m7")) == first


def test_a_reranker_reads_no_part_that_ended(tmp_path):
    class Recorder:
        name, texts = "recorder", ()

        def score(self, question, texts):
            self.texts = tuple(texts)
            return np.zeros(len(texts))

    part = json.dumps([[0, TWO.index("and my")]])
    index = indexed(tmp_path / "i.duckdb", relation("m7", "m6", "UPDATE", consequence="superseded", part=part))
    reads = []
    for history in (False, True):
        with open_index(index) as opened:
            reranker = Recorder()
            Reader(opened.backend, reranker=reranker).search("Where is my desk?", ANA, history=history)
        reads.append({text for text in reranker.texts if "my desk" in text})
    assert reads == [{"[…] and my desk is at Acme."}, {TWO}]


def test_what_disputes_a_memory_disputes_the_formed_one_that_repeats_what_is_meant(tmp_path):
    said = {"chunk_ids": ["c8"], "char_start": 100, "char_end": 100 + len(TWO), "document_id": "d"}
    formed = [
        memory(i, text, unit="reflection", observed_at=at("2024-01-02"), **said | {"char_start": a, "char_end": b})
        for i, text, a, b in (
            ("f1", "Ana rents a flat in Kothrud.", 100, 126),
            ("f2", "Ana's desk is at Acme.", 127, 100 + len(TWO)),
        )
    ]
    more = [memory("m8", TWO, observed_at=at("2024-01-02"), **said), *formed]
    doubt = disputed("m7", "m8", part=json.dumps([[0, 26]]))
    assert disputes(indexed(tmp_path / "i.duckdb", doubt, more=more), all_results=True) == {"m8": "m7", "f1": "m7"}


def test_what_ended_less_of_a_formed_memory_than_would_end_it_was_said_later(tmp_path):
    said = {
        "chunk_ids": ["c8"],
        "char_start": 0,
        "char_end": len(TWO),
        "document_id": "d",
        "observed_at": at("2024-01-02"),
    }
    formed = memory("f1", "Ana rents a flat in Kothrud, and her desk is at Acme.", unit="reflection", **said)
    ended = relation("m7", "m8", "UPDATE", consequence="superseded", part="[[0, 14]]", likelihood=None)
    index = indexed(tmp_path / "i.duckdb", ended, more=[memory("m8", TWO, **said), formed])
    shown = next(m for m in search(index, "Where is the desk?").memories if m.memory_id == "f1")
    assert [(n.memory_id, n.why, n.likelihood) for n in shown.later] == [("m7", "later", 0.4)]


def test_a_formed_memory_is_not_disputed_by_what_it_rests_on_and_once_by_what_disputes_all_of_that(tmp_path):
    first, second = "The printer jams on Mondays.", "I fixed the printer with a new roller."
    said = [
        memory(f"p{n}", text, observed_at=at(f"2024-01-0{n}"), chunk_ids=[f"p{n}"])
        for n, text in enumerate((first, second), 1)
    ]
    solution = memory(
        "f1", f"{first} {second}", unit="reflection", observed_at=at("2024-01-02"), chunk_ids=["p1", "p2"]
    )
    doubts = [disputed("p2", "p1"), disputed("m7", "p1", likelihood=0.6), relation("m7", "p2", likelihood=0.1)]
    index = indexed(tmp_path / "i.duckdb", *doubts, more=[*said, solution])
    shown = {m.memory_id: m for m in search(index, "Does the printer jam?").memories}
    assert shown["f1"].disputed_by.memory_id == "m7" and shown["f1"].later == ()
    assert shown["p1"].disputed_by.memory_id == "m7" and [n.memory_id for n in shown["p1"].later] == ["p2"]


def test_what_was_said_later_about_the_same_follows_it_in_the_context(tmp_path):
    index = indexed(tmp_path / "i.duckdb", relation("m7", "m6", likelihood=0.1))
    found = search(index, "Where do we rent a flat?", k=1)
    assert [m.memory_id for m in found.memories] == ["m6"]
    lines = found.context.splitlines()
    assert lines[0].endswith("[1]") and lines[1].endswith("[2]") and found.citations.ids == ("m6", "m7")
    assert lines[1].startswith("  later: (2024-05-02) The last box")
    assert found.cited.keys() == {"m6", "m7"}


def test_a_superseded_memory_answers_through_what_took_its_place(tmp_path):
    roof = memory("m8", "The flat roof of the shed was renewed.", observed_at=at("2024-01-03"))
    index = indexed(tmp_path / "i.duckdb", updates=[("m7", "m6")], more=[roof])
    results = search(index, "Where do we rent a flat?", explain=True).memories
    assert [m.memory_id for m in results[:2]] == ["m7", "m8"]
    assert [(link.source, link.kind) for link in results[0].path] == [("m6", "UPDATE")]
    assert [m.memory_id for m in search(index, "Where do we rent a flat?", strategy="flat").memories[:1]] == ["m8"]


def test_nothing_open_is_a_reason_in_a_history(index):
    with open_index(index) as reader:
        (version,) = reader.history_of(ANA, "m1")
    assert version.why is None and version.kept == () and version.disputed_by.memory_id == "m2"


def test_a_memory_by_its_id_names_what_is_newer_and_stays_whole(tmp_path):
    part = json.dumps([[TWO.index("We rent"), TWO.index("and my")]])
    ended = relation("m7", "m6", "UPDATE", consequence="superseded", part=part, likelihood=0.9)
    hidden = disputed("m5", "m3")
    index = indexed(tmp_path / "i.duckdb", disputed("m2", "m1"), disputed("m4", "m1"), ended, hidden)
    with open_index(index) as reader:
        shown = {i: reader.memory_with_changes(ANA, i) for i in ("m1", "m3", "m6")}
        text = memory_text(shown["m1"], reader.history_of(ANA, "m1"))
        assert reader.memory_with_changes(ANA, "m5") is None and reader.memory_with_changes(ANA, "b1") is None
    assert memory_json(shown["m1"])["disputed_by"]["memory_id"] == "m2" and shown["m3"].disputed_by is None
    assert "  state:    latest, disputed\n" in text
    assert f"  disputed by: {NEW}  (2024-06-01, m2, uncertain, 0.50 that it ended)\n  said later: Team" in text
    assert shown["m6"].text == TWO and "latest, superseded in part\n" in memory_text(shown["m6"], ())
    assert "  superseded in part by: The last box is unpacked in Nashik." in memory_text(shown["m6"], ())


def test_what_is_outside_of_the_parts_is_kept():
    assert kept_spans("One. Two. Three.", [(5, 9)]) == ((0, 4), (10, 16))
    assert kept_spans("One. Two.", [(0, 3), (3, 5)]) == ((5, 9),)
    assert kept_spans("One. Two.", [(0, 99)]) == ()


def test_a_text_beside_a_result_is_without_its_ended_part_too(tmp_path):
    part = json.dumps([[TWO.index("We rent"), TWO.index("and my")]])
    ended = relation("m7", "m6", "UPDATE", consequence="superseded", part=part, likelihood=0.9)
    mill = memory("m8", "I sit at the mill by the river.", observed_at=at("2023-05-01"))
    index = indexed(tmp_path / "i.duckdb", ended, relation("m6", "m8", likelihood=0.1), more=[mill])
    found = search(index, "Who sits at the mill by the river?", k=1)
    assert [m.memory_id for m in found.memories] == ["m8"]
    assert "later: (2024-01-02) […] and my desk is at Acme." in found.context and "Kothrud" not in found.context


@pytest.mark.parametrize(("likelihood", "first"), [(0.2, "m8"), (0.3, "m9")])
def test_what_may_have_ended_a_memory_ranks_above_it_where_it_is_likely_and_relevant(tmp_path, likelihood, first):
    mill = memory("m8", "I sit at the mill by the river.", observed_at=at("2023-05-01"))
    moved = memory("m9", "My chair is at the mill now.", observed_at=at("2024-05-01"))
    index = indexed(tmp_path / "i.duckdb", relation("m9", "m8", likelihood=likelihood), more=[mill, moved])
    found = search(index, "Who sits at the mill by the river?")
    assert next(m.memory_id for m in found.memories if m.memory_id in ("m8", "m9")) == first
