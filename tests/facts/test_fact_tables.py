"""Tables of facts: the same of several memories once, with its time; carried over where nothing changed."""

import datetime as dt

import polars as pl
import pytest

from palimpsest.facts import fact_tables
from palimpsest.facts.fact_tables import FactInputs, clause_facts, facts, first_person, speakers
from palimpsest.store.tables import conform

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}
TEXTS = {
    "m1": "Ana works at Basin.",
    "m2": "Today Ana works at basin.",
    "m3": "Ana works at Corvid.",
    "m4": "I live in Ghent.",
}
ENTITIES = {"Ana": "person", "Basin": "organisation", "Corvid": "organisation", "Ghent": "place"}


def day(n: int) -> dt.datetime:
    return dt.datetime(2026, n, 1, tzinfo=dt.UTC)


def inputs(texts: dict[str, str] = TEXTS) -> FactInputs:
    memories = [
        {"memory_id": m, **SCOPE, "text": text, "observed_at": day(i), "speaker": "Ana" if m == "m4" else None}
        for i, (m, text) in enumerate(texts.items(), 1)
    ]
    entities = [{"entity_id": name, **SCOPE, "name": name, "type": t, "aliases": []} for name, t in ENTITIES.items()]
    mentions = [
        {"memory_id": m, "entity_id": name, **SCOPE, "char_start": at, "char_end": at + len(name)}
        for m, text in texts.items()
        for name in ENTITIES
        if (at := text.lower().find(name.lower())) >= 0
    ]
    mentions.append({"memory_id": "m4", "entity_id": "Ana", **SCOPE, "char_start": None, "char_end": None})
    rows = {"memories": memories, "mentions": mentions, "entities": entities}
    return FactInputs(**{name: conform(name, pl.DataFrame(r)) for name, r in rows.items()})


def versions() -> pl.DataFrame:
    retired = {"m1": day(3), "m2": day(3)}
    rows = [
        {"memory_id": m, **SCOPE, "is_latest": m not in retired, "valid_from": day(i), "valid_until": retired.get(m)}
        for i, m in enumerate(TEXTS, 1)
    ]
    return conform("versions", pl.DataFrame(rows))


def parts(*rows: tuple[str, int, int, dt.datetime]) -> pl.DataFrame:
    schema = {"memory_id": pl.String, "start": pl.Int64, "end": pl.Int64, "ended_at": pl.Datetime("us", "UTC")}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def test_what_an_ended_part_states_ends_with_it_and_the_rest_holds():
    text = "I live in Ghent and I work at Basin."
    both = inputs({"m4": text})
    state = conform("versions", pl.DataFrame([{"memory_id": "m4", **SCOPE, "is_latest": True, "valid_from": day(1)}]))
    ended = parts(("m4", text.index("and"), len(text), day(5)))
    found = facts(clause_facts(both), state, both.memories, ended)
    rows = {r["predicate"]: r for r in found.iter_rows(named=True)}
    assert rows["lives_in"]["is_latest"] and rows["lives_in"]["valid_until"] is None
    assert not rows["works_for"]["is_latest"] and rows["works_for"]["valid_until"] == day(5)


def test_a_fact_of_several_memories_has_one_row_and_the_time_of_all():
    found = facts(clause_facts(inputs()), versions(), inputs().memories, parts())
    rows = {(r["subject_id"], r["predicate"], r["object_id"]): r for r in found.iter_rows(named=True)}
    basin, corvid = rows["Ana", "works_for", "Basin"], rows["Ana", "works_for", "Corvid"]
    assert basin["memory_ids"] == ["m1", "m2"] and not basin["is_latest"]
    assert (basin["valid_from"], basin["valid_until"]) == (day(1), day(3))
    assert corvid["is_latest"] and corvid["valid_until"] is None
    assert ("Ana", "lives_in", "Ghent") in rows and found["fact_id"].is_sorted() and found["fact_id"].n_unique() == 3


def test_who_says_i_is_a_speaker_where_no_text_names_them():
    before = inputs({"m4": "I live in Ghent.", "m5": "I use Corvid."})
    memories = before.memories.with_columns(
        speaker=pl.col("memory_id").replace_strict({"m4": "Mira", "m5": "Assistant"})
    )
    clauses = clause_facts(FactInputs(memories, before.mentions, before.entities))
    assert clauses.select("predicate", "object_id").rows() == [("lives_in", "Ghent")]
    (mira,) = speakers(clauses, before.entities, memories).rows(named=True)
    assert (mira["name"], mira["memory_ids"], mira["entity_id"]) == ("Mira", ["m4"], clauses["subject_id"][0])


@pytest.mark.parametrize(
    ("user", "speakers", "names"),
    [
        ("u1", ["Mira Holt", "assistant", "user", None], ["Mira Holt", None, "Mira Holt", "Mira Holt"]),
        ("mira", ["Bo", "Mira Holt", "user"], ["Bo", "Mira Holt", "Mira Holt"]),
        ("u1", ["Bo", "Mira Holt", "User", None], ["Bo", "Mira Holt", "u1", "u1"]),
        ("u1", [None, "tool"], ["u1", None]),
        ("", ["user", None, "Bo"], [None, None, "Bo"]),
    ],
)
def test_the_first_person_is_a_speaker_by_name_else_the_user(user, speakers, names):
    rows = [
        {"memory_id": str(i), **SCOPE, "user_id": user, "unit": "turn", "speaker": s} for i, s in enumerate(speakers)
    ]
    found = dict(first_person(conform("memories", pl.DataFrame(rows))).iter_rows())
    assert [found.get(str(i)) for i in range(len(speakers))] == names
    page = pl.DataFrame([{"memory_id": "1", **SCOPE, "unit": "chunk", "speaker": None}])
    assert first_person(conform("memories", page)).is_empty()


def test_headings_are_no_part_of_a_sentence():
    text = "# Where people\n\nAna works at Basin."
    (fact,) = clause_facts(inputs({"m1": text})).rows(named=True)
    assert text[fact["char_start"] : fact["char_end"]].startswith("Ana works at Basin")


def test_only_memories_whose_text_or_names_changed_are_read_again(monkeypatch):
    before = inputs()
    known = clause_facts(before)
    read = []
    parse = fact_tables.parse_texts
    monkeypatch.setattr(fact_tables, "parse_texts", lambda texts: read.extend(texts) or parse(texts))
    after = inputs(TEXTS | {"m3": "Ana works for Corvid."})
    again = clause_facts(after, before, known)
    assert read == ["Ana works for Corvid."]
    assert again.equals(clause_facts(after))


def test_texts_that_can_name_nobody_are_not_parsed(monkeypatch):
    texts = {"m1": "The river rose.", "m4": "It rained.", "m5": "I use Corvid.", "m6": "I was there."}
    inside = inputs(texts)
    memories = inside.memories.with_columns(speaker=pl.when(pl.col("memory_id") != "m1").then(pl.lit("Mira")))
    read = []
    parse = fact_tables.parse_texts
    monkeypatch.setattr(fact_tables, "parse_texts", lambda found: read.extend(found) or parse(found))
    clauses = clause_facts(FactInputs(memories, inside.mentions.filter(pl.col("memory_id") == "m5"), inside.entities))
    assert read == ["I use Corvid.", "I was there."] and clauses["memory_id"].unique().to_list() == ["m5"]


def test_a_later_memory_ends_a_fact_and_a_newer_value_takes_the_place_of_a_single_one():
    texts = {
        "m1": "Ana lives in Ghent and works at Basin.",
        "m2": "Ana left Basin.",
        "m3": "Ana moved to Corvid Bay.",
        "m4": "Ana works at Corvid.",
    }
    read = inputs(texts)
    state = [{"memory_id": m, **SCOPE, "is_latest": True, "valid_from": day(i)} for i, m in enumerate(texts, 1)]
    found = facts(clause_facts(read), conform("versions", pl.DataFrame(state)), read.memories, parts())
    ends = {(r["predicate"], r["object_id"]): r["valid_until"] for r in found.iter_rows(named=True)}
    assert ends["works_for", "Basin"] == day(2) and ends["works_for", "Corvid"] is None
    assert ends["lives_in", "Ghent"] == day(3)
    assert found.filter(~pl.col("is_latest")).height == 2
