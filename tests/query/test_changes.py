"""What is newer than a result, its history and its premises: in one scope, and cut where it ended."""

import json

import duckdb
import numpy as np
import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.context.changes import kept_spans
from palimpsest.query.reader import Reader
from palimpsest.query.result import history_text, memory_json, memory_text, results_text
from palimpsest.text.questions import asks_for_reasons
from tests.query.made import at, memory, reader_fixture, rows, tables, write

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


def ended(end, likelihood=0.9, newer="m7", older="m6"):
    """What ends the text of m6 up to some words."""
    more = {"consequence": "superseded", "part": json.dumps([[0, TWO.index(end)]]), "likelihood": likelihood}
    return relation(newer, older, "UPDATE", **more)


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


def test_a_disputed_memory_names_the_newest_that_disputes_it_in_json_text_and_context(index):
    found = search(index)
    ranks = [m.memory_id for m in found.memories]
    older = found.memories[ranks.index("m1")]
    assert older.disputed_by.memory_id == "m2" and [n.memory_id for n in older.later] == ["m4"]
    assert (older.disputed_by.text, older.disputed_by.why) == (NEW, "uncertain")
    assert ranks.index("m2") < ranks.index("m1") and ranks.index("m4") < ranks.index("m1")
    found = search(index)
    as_json = {m["memory_id"]: m for m in found.to_json()["memories"]}
    newer = {"memory_id": "m2", "text": NEW, "observed_at": "2024-06-01T00:00:00+00:00", "relation_id": "m2?m1"}
    assert as_json["m1"]["disputed_by"] == newer | {"why": "uncertain", "likelihood": 0.5, "part": []}
    assert "(2024-06-01, m2, uncertain, 0.50 that it ended)" in results_text(found, explain=True)
    assert as_json["m2"]["disputed_by"] is None and not as_json["m1"]["is_cut"]
    assert f"     disputed by: {NEW}  (2024-06-01, m2)" in results_text(found)
    assert f"- (2024-01-01, disputed by [memory:m2]) {OLD} [memory:m1]" in found.context_with("full")
    assert [m.memory_id for m in search(index, question=OLD, k=1).memories] == ["m2"]
    with open_index(index) as reader:
        (version,) = reader.history_of(ANA, "m1")
    assert version.why is None and version.kept == () and version.disputed_by.memory_id == "m2"


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


def test_hidden_foreign_decided_and_replaced_memories_dispute_nothing(tmp_path):
    index = indexed(tmp_path / "i.duckdb", disputed("m5", "m1"), disputed("b1", "m1"))
    assert disputes(index) == {}
    assert disputes(index, include_hidden=True) == {"m1": "m5"}
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
    index = indexed(tmp_path / "i.duckdb", ended("and my"))
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
    found = search(indexed(tmp_path / "i.duckdb", ended(", and my")), question)
    assert next(m.memory_id for m in found.memories if m.memory_id in ("m6", "m7")) == first


def test_all_that_ended_parts_of_a_memory_answer_for_it_through_others_too(tmp_path):
    more = [
        memory("m9", "Globex gave me a badge.", observed_at=at("2024-03-01")),
        memory("m10", "Initech pays better.", observed_at=at("2024-06-02")),
    ]
    of_parts = [ended(", and my"), relation("m9", "m6", "UPDATE", part=json.dumps([[TWO.index("and my"), len(TWO)]]))]
    index = indexed(tmp_path / "i.duckdb", *of_parts, updates=[("m7", "m6"), ("m10", "m9")], more=more)
    for filters in ({}, {"now": "2024-12-01"}):
        assert {m.memory_id for m in search(index, TWO, k=2, **filters).memories} == {"m7", "m10"}


def test_a_reranker_reads_no_part_that_ended(tmp_path):
    class Recorder:
        name, texts = "recorder", ()

        def score(self, question, texts):
            self.texts = tuple(texts)
            return np.zeros(len(texts))

    index = indexed(tmp_path / "i.duckdb", ended("and my"))
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
    said = {"chunk_ids": ["c8"], "char_start": 0, "char_end": len(TWO), "document_id": "d"}
    said["observed_at"] = at("2024-01-02")
    formed = memory("f1", "Ana rents a flat in Kothrud, and her desk is at Acme.", unit="reflection", **said)
    less = ended(" a flat", None, older="m8") | {"part": "[[0, 14]]"}
    index = indexed(tmp_path / "i.duckdb", less, more=[memory("m8", TWO, **said), formed])
    shown = next(m for m in search(index, "Where is the desk?").memories if m.memory_id == "f1")
    assert [(n.memory_id, n.why, n.likelihood) for n in shown.later] == [("m7", "later", 0.4)]


def test_a_formed_memory_is_not_disputed_by_what_it_rests_on_and_once_by_what_disputes_all_of_that(tmp_path):
    first, second = "The printer jams on Mondays.", "I fixed the printer with a new roller."
    days = {n: at(f"2024-01-0{n}") for n in (1, 2)}
    said = [memory(f"p{n}", (first, second)[n - 1], observed_at=days[n], chunk_ids=[f"p{n}"]) for n in days]
    about = {"unit": "reflection", "observed_at": days[2], "chunk_ids": ["p1", "p2"]}
    solution = memory("f1", f"{first} {second}", **about)
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


def test_a_memory_by_its_id_names_what_is_newer_and_stays_whole(tmp_path):
    doubts = [disputed("m2", "m1"), disputed("m4", "m1"), disputed("m5", "m3")]
    index = indexed(tmp_path / "i.duckdb", *doubts, ended("and my"))
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
    mill = memory("m8", "I sit at the mill by the river.", observed_at=at("2023-05-01"))
    index = indexed(tmp_path / "i.duckdb", ended("and my"), relation("m6", "m8", likelihood=0.1), more=[mill])
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


FACTS = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01")),
    memory("m3", "The launch is on Monday again, not on Friday.", observed_at=at("2024-03-01")),
    memory("m4", "The van is red.", observed_at=at("2024-01-05"), valid_until=at("2024-12-31")),
    memory("b1", "Ben's launch is on Tuesday.", user_id="ben", observed_at=at("2024-01-01")),
    memory("b2", "Ben's launch is on Sunday.", user_id="ben", observed_at=at("2024-01-02")),
]
EVIDENCE = {"rule": "slot:day", "from": "Monday", "to": "Friday", "newer": [11, 26], "older": [11, 23]}


def made():
    t = tables(FACTS, [("m2", "m1"), ("m3", "m2"), ("b2", "b1")])
    evidence = pl.col("relation_id").replace_strict({"m2>m1": json.dumps(EVIDENCE)}, default=None)
    return t | {"relations": t["relations"].with_columns(evidence=evidence, labeler=pl.lit("offline"))}


versions = reader_fixture(made)


@pytest.mark.parametrize("version", ["m1", "m2", "m3"])
def test_every_version_of_a_fact_has_the_same_history(versions, version):
    newest, middle, oldest = versions.history_of(ANA, version)
    assert [v.memory.memory_id for v in (newest, middle, oldest)] == ["m3", "m2", "m1"]
    assert newest.why is None and newest.memory.is_latest
    why = oldest.why
    assert (why.kind, why.by, why.label, why.confidence, why.labeler) == ("updated", "m2", "UPDATE", 0.9, "offline")
    assert (why.rule, why.was, why.now, why.relation_id) == ("slot:day", "Monday", "Friday", "m2>m1")
    assert (why.newer_quote, why.older_quote) == ("moved to Friday", "is on Monday")
    assert middle.why.by == "m3" and middle.memory.valid_until == at("2024-03-01")


def test_a_history_in_text_and_in_an_answer_has_what_changed_and_stays_in_its_scope(versions):
    assert history_text(versions.history_of(ANA, "m1")).splitlines() == [
        "2024-03-01 to now  The launch is on Monday again, not on Friday.  [m3]",
        "2024-02-01 to 2024-03-01  The launch moved to Friday.  [m2]",
        "    replaced by [m3]: it is an update, found by the labeler offline (0.90 sure); relation m3>m2",
        "2024-01-01 to 2024-02-01  The launch is on Monday.  [m1]",
        "    replaced by [m2]: 'Monday' became 'Friday', found by the labeler offline (0.90 sure); relation m2>m1",
    ]
    assert "2024-01-05 to 2024-12-31" in history_text(versions.history_of(ANA, "m4"))
    results = versions.search("When is the launch?", ANA, history=True)
    assert results_text(results).count("history, newest first") == 1 and "history: see 1" in results_text(results)
    first = next(m for m in results.to_json()["memories"] if m["memory_id"] == "m1")
    assert [v["memory_id"] for v in first["history"]] == ["m3", "m2", "m1"]
    assert first["history"][2]["why"]["text"].startswith("replaced by [m2]: 'Monday' became 'Friday'")
    assert first["history"][0]["why"] is None and json.dumps(first)
    plain = versions.search("When is the launch?", ANA)
    assert not plain.versions and "history" not in results_text(plain)
    assert "history" not in plain.to_json()["memories"][0]
    assert versions.history_of(ANA, "b1") == () and versions.history_of(("notes", "nobody"), "m1") == ()
    assert [v.memory.memory_id for v in versions.history_of(("notes", "ben"), "b1")] == ["b2", "b1"]


def test_an_index_of_an_earlier_version_has_histories_without_reasons(versions, tmp_path):
    old = tmp_path / "old.duckdb"
    old.write_bytes(versions.backend.path.read_bytes())
    with duckdb.connect(str(old)) as db:
        db.execute("DROP TABLE reasons").fetchall()
    with open_index(old) as reader:
        history = reader.history_of(ANA, "m1")
    assert [v.memory.memory_id for v in history] == ["m3", "m2", "m1"] and all(v.why is None for v in history)


BUDGET, SPENT, LEFT = "Stoat has 180,000 euros.", "Stoat spent 64,000 euros.", "That leaves Stoat 116,000 euros."
MEMORIES_premises = [
    memory("m1", BUDGET, observed_at=at("2024-01-01")),
    memory("m2", SPENT, observed_at=at("2024-03-01")),
    memory("m3", LEFT, observed_at=at("2024-03-02")),
    memory("m4", "Stoat is secret.", observed_at=at("2024-01-05"), user_visible=False),
    memory("m5", "Stoat has 190,000 euros.", observed_at=at("2024-06-01")),
]


def made_premises():
    made_premises = tables(MEMORIES_premises, [("m5", "m1")])
    scope = {"collection": "notes", "user_id": "ana", "confidence": 0.9, "labeler": "premises", "label": "DERIVE"}
    ids = [{"relation_id": f"m3>{older}", "newer_id": "m3", "older_id": older} for older in ("m1", "m2", "m4")]
    derived = rows("relations", *({**scope, **i, "evidence": json.dumps({})} for i in ids))
    return made_premises | {"relations": pl.concat([made_premises["relations"], derived])}


reader = reader_fixture(made_premises)


def test_premises_are_named_where_they_are_explained_but_those_that_filters_leave_out(reader):
    found = reader.search("What is left of Stoat?", ANA, k=10, explain=True)
    premises = {m.memory_id: m.premises for m in found.memories if m.premises}
    assert {i: [p.memory_id for p in named] for i, named in premises.items()} == {"m3": ["m1", "m2"]}
    named = [(p.text, p.is_latest, p.relation_id) for p in premises["m3"]]
    assert named == [(BUDGET, False, "m3>m1"), (SPENT, True, "m3>m2")]
    text = results_text(found, explain=True)
    assert f"follows from: {BUDGET}  (2024-01-01, superseded, m1)" in text and f"follows from: {SPENT}" in text
    as_json = {m["memory_id"]: m["premises"] for m in found.to_json()["memories"]}
    assert [p["memory_id"] for p in as_json["m3"]] == ["m1", "m2"] and as_json["m2"] == []
    found = reader.search("What is left of Stoat?", ANA, k=10)
    assert not any(m.premises for m in found.memories) and "premises" not in found.to_json()["memories"][0]
    (version,) = reader.history_of(ANA, "m3")
    hidden = reader.history_of(ANA, "m3", include_hidden=True)[0]
    retired = reader.history_of(ANA, "m1")
    assert [p.memory_id for p in version.premises] == ["m1", "m2"] and version.why is None
    assert [p.memory_id for p in hidden.premises] == ["m1", "m4", "m2"]
    assert f"follows from: {SPENT}  (2024-03-01, m2)" in history_text([version])
    assert all(v.premises == () for v in retired)


def test_a_question_that_asks_why_lifts_the_premises_of_the_conclusion(reader):
    plain, why = (
        {m.memory_id: m for m in reader.search(q, ANA, k=10, strategy="hybrid", explain=True).memories}
        for q in ("What is left of Stoat?", "Why is that left of Stoat?")
    )
    conclusion, premise = why["m3"], why["m2"]
    assert "follows from it" in premise.why and premise.score == pytest.approx(0.9 * conclusion.score)
    assert plain["m2"].score < 0.9 * plain["m3"].score


@pytest.mark.parametrize(
    ("question", "is_why"),
    [
        ("Why did we go back to the old supplier?", True),
        ("How come the shop is closed?", True),
        ("What is the reason for the delay?", True),
        ("Who wrote the report on Whyte?", False),
        ("When does the shop open?", False),
    ],
)
def test_questions_for_reasons_are_known_by_their_words(question, is_why):
    assert asks_for_reasons(question) is is_why
