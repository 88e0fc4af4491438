"""The profile of a user: what lasts, what is recent, what nobody may see, and whose it is."""

from typing import Any

import polars as pl
import pytest

from palimpsest.query.profile import Profile
from palimpsest.query.reader import open_home
from tests.query.graphed import ANA, BEN, fact, node
from tests.query.made import at, home, memory, rows, tables

SAID = {"speaker": "Ana", "type": "episodic", "unit": "turn"}


def profile_tables() -> dict[str, pl.DataFrame]:
    """Ana works, moves, drinks tea and repaired a lamp; the assistant likes rain; one memory of hers is personal."""
    turns: list[tuple[str, str, str, dict[str, Any]]] = [
        ("m1", "I work at Basin as a tester.", "2026-01-05", SAID),
        ("m2", "I live in Paris.", "2026-01-06", SAID),
        ("m3", "I left Basin. I work at Corvid now.", "2026-03-06", SAID),
        ("m4", "I live in Ghent. It is small.", "2026-03-07", SAID),
        ("m5", "I repaired the lamp.", "2026-03-08", SAID),
        ("m6", "I saw a heron.", "2026-01-07", SAID),
        ("m7", "I like rain.", "2026-03-08", SAID | {"speaker": "assistant"}),
        ("m8", "I am married to Zorro.", "2026-03-08", SAID | {"pii": True}),
    ]
    made = tables(
        [
            *(memory(i, text, observed_at=at(day), **columns) for i, text, day, columns in turns),
            memory("m9", "Ana prefers tea.", observed_at=at("2026-01-02"), type="preference", unit="reflection"),
            memory(
                "m10",
                "Levin prefers beer.",
                observed_at=at("2026-01-02"),
                type="preference",
                unit="reflection",
                speaker="Levin",
            ),
            memory("b1", "I live in Rome.", "ben", observed_at=at("2026-01-02"), **(SAID | {"speaker": "Ben"})),
        ]
    )
    names = ("Ana", "Basin", "Corvid", "Paris", "Ghent", "Zorro", "assistant")
    nodes = [node(f"ana:{n}", n, "concept", ANA) for n in names]
    nodes += [node("ben:Ben", "Ben", "person", BEN), node("ben:Rome", "Rome", "place", BEN)]
    stated = [
        ("m1", "works_for", {"object_id": "ana:Basin"}, "2026-01-05"),
        ("m2", "lives_in", {"object_id": "ana:Paris"}, "2026-01-06"),
        ("m3", "leave", {"object_id": "ana:Basin"}, "2026-03-06"),
        ("m3", "works_for", {"object_id": "ana:Corvid"}, "2026-03-06"),
        ("m4", "lives_in", {"object_id": "ana:Ghent"}, "2026-03-07"),
        ("m5", "repair", {"value": "the lamp"}, "2026-03-08"),
        ("m6", "see", {"value": "a heron"}, "2026-01-07"),
        ("m8", "married_to", {"object_id": "ana:Zorro"}, "2026-03-08"),
    ]
    facts = [
        fact(f"f{n}", "ana:Ana", predicate, ANA, memory_ids=[i], valid_from=at(day), **what)
        for n, (i, predicate, what, day) in enumerate(stated)
    ]
    facts.append(fact("g1", "ana:assistant", "like", ANA, value="rain", memory_ids=["m7"]))
    facts.append(fact("g2", "ben:Ben", "lives_in", BEN, object_id="ben:Rome", memory_ids=["b1"]))
    members = [{"node_id": "ana:Ana", "memory_id": m, **ANA, "relevance": 0.5} for m in ("m1", "m8")]
    return made | {
        "nodes": rows("nodes", *nodes),
        "facts": rows("facts", *facts),
        "node_memories": rows("node_memories", *members),
    }


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return open_home(home(tmp_path_factory.mktemp("home"), profile_tables()), count_reads=False)


@pytest.fixture
def profile(reader):
    return reader.profile(("notes", "ana"))


def cited(profile: Profile) -> set[str]:
    return {i for line in profile.lines for i in line.memory_ids}


def test_what_lasts_is_apart_from_what_is_recent(profile):
    assert {line.memory_ids[0] for line in profile.static} == {"m3", "m4", "m9"}
    assert {line.memory_ids[0]: line.key for line in profile.dynamic} == {"m3": "leave", "m5": "repair"}


def test_a_line_is_the_sentence_that_states_it_with_its_day_and_memory(profile):
    lives = next(line for line in profile.static if line.key == "lives_in")
    assert lives.cited == "2026-03-07  Ana: I live in Ghent. [memory:m4]"
    formed = next(line for line in profile.static if line.kind == "preference")
    assert (formed.text, formed.memory_ids) == ("Ana prefers tea.", ("m9",))


def test_what_a_newer_statement_ends_and_what_is_old_and_passing_is_left_out(profile):
    assert cited(profile).isdisjoint({"m1", "m2", "m6"})


def test_an_assistant_and_another_user_are_not_the_user(profile, reader):
    assert cited(profile).isdisjoint({"m7", "m10", "b1"}) and "m9" in cited(profile)
    assert [line.text for line in reader.profile(("notes", "ben")).lines] == ["Ben: I live in Rome."]


def test_personal_data_is_shown_only_on_demand(profile, reader):
    assert "m8" not in cited(profile)
    assert "m8" in cited(reader.profile(("notes", "ana"), include_pii=True))


def test_a_user_of_whom_nothing_is_known_has_an_empty_profile(tmp_path):
    made = tables([memory("m1", "The bridge is long.", observed_at=at("2026-01-02"))])
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        assert opened.profile(("notes", "ana")).to_json() == {"user": "ana", "static": [], "dynamic": []}


def test_what_has_an_end_is_recent_until_then_and_left_out_after_it(tmp_path):
    said = SAID | {"observed_at": at("2026-01-02")}
    made = tables(
        [
            memory("m1", "I live in Oslo until March.", valid_until=at("2026-04-01"), **said),
            memory("m2", "I live in Bern until June.", valid_until=at("2026-07-01"), **said),
            memory("m3", "I bought shoes.", **(SAID | {"observed_at": at("2026-05-01")})),
        ]
        + [
            memory(
                i,
                text,
                observed_at=at("2026-01-02"),
                valid_until=end,
                type="preference",
                unit="reflection",
                speaker="Ana",
            )
            for i, text, end in (
                ("m4", "Ana prefers tea this winter.", at("2026-04-01")),
                ("m5", "Ana prefers milk until June.", at("2026-07-01")),
                ("m6", "Ana prefers rice.", None),
            )
        ]
    )
    made["nodes"] = rows("nodes", *(node(f"ana:{n}", n, "concept", ANA) for n in ("Ana", "Oslo", "Bern")))
    made["facts"] = rows(
        "facts",
        *(
            fact(f, "ana:Ana", "lives_in", ANA, object_id=f"ana:{place}", memory_ids=[m], valid_until=at(end))
            for f, place, m, end in (("f1", "Oslo", "m1", "2026-04-01"), ("f2", "Bern", "m2", "2026-07-01"))
        ),
    )
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        shown = opened.profile(("notes", "ana"))
    assert {line.memory_ids for line in shown.dynamic} == {("m2",), ("m5",)}
    assert {line.memory_ids for line in shown.static} == {("m6",)}


def test_a_line_names_what_disputes_it_and_what_may_have_ended_it(tmp_path):
    made = profile_tables()
    pairs = [
        ("m5", "m4", "disputed", 0.5, None),
        ("m5", "m3", None, 0.3, None),
        ("m4", "m3", "disputed", 0.6, "[[0, 13]]"),
        ("m8", "m3", None, 0.05, None),
    ]
    relations = [
        {
            "relation_id": f"{newer}?{older}",
            "newer_id": newer,
            "older_id": older,
            "label": "NONE",
            "labeler": "offline",
            "consequence": consequence,
            "likelihood": p,
            "part": part,
            "evidence": "{}",
            **ANA,
        }
        for newer, older, consequence, p, part in pairs
    ]
    made["relations"] = rows("relations", *relations)
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        profile = opened.profile(("notes", "ana"))
    lines = {line.memory_ids[0]: line for line in profile.static}
    by = "[memory:m5], 2026-03-08: “I repaired the lamp.”"
    assert lines["m4"].cited == f"2026-03-07  Ana: I live in Ghent. [memory:m4] (disputed by {by})"
    assert lines["m3"].cited.endswith(f"I work at Corvid now. [memory:m3] (later {by})")
    left = next(line for line in profile.dynamic if line.key == "leave")
    assert left.disputed_by is not None and left.disputed_by.memory_id == "m4"
    as_json = lines["m4"].to_json()
    assert as_json["disputed_by"]["memory_id"] == "m5" and as_json["later"] == []


def test_what_is_said_again_in_the_same_words_is_one_line_with_its_times(tmp_path):
    formed = {"type": "preference", "unit": "reflection", "speaker": "Ana"}
    days = {"m1": "2026-01-02", "m2": "2026-02-03", "m3": "2026-01-09"}
    made = tables([memory(i, "Ana prefers tea.", observed_at=at(day), **formed) for i, day in days.items()])
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        (line,) = opened.profile(("notes", "ana")).lines
    assert line.memory_ids == ("m2", "m3", "m1") and line.first_time == at("2026-01-02")
    assert line.cited == "2026-02-03  Ana prefers tea. [memory:m2] (said 3 times since 2026-01-02)"
