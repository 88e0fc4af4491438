"""Memories that ended by their own words, from files to answers: with a time, without one, and in a profile."""

from pathlib import Path

import polars as pl
import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import verify_home
from tests.small_corpus import write_chats

RACE, DONE, AWAY, LAKE = (
    ("s1", "ivan", "Ivan", "I am training for the half marathon in Ghent on 28 June.", "2026-05-02T09:00:00Z"),
    ("s2", "ivan", "Ivan", "My knee hurts a bit after the long run.", "2026-06-29T09:00:00Z"),
    ("s2", "ivan", "Ivan", "I am away until 8 July. My aunt is called Ruth.", "2026-06-29T09:01:00Z"),
    ("s3", "ivan", "Ivan", "I am at the lake until 8 July.", "2026-06-29T10:00:00Z"),
)
LAST = ("s4", "ivan", "Ivan", "I bought shoes.", "2026-08-10T09:00:00Z")
TURNS = [RACE, DONE, AWAY, LAKE, LAST]


def build(home: Home, corpus: Path, turns: list[tuple[str, str, str, str, str]]) -> None:
    write_chats(corpus, turns)
    settings = corpus / "chats/collection.yaml"
    settings.write_text(settings.read_text().replace("unit: turn", "form: [turns, reflection]"))
    run_without_dagster(home, make_plan(home, [corpus]))


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Home]:
    """Returns a home that was built at once, and one that was built in two steps."""
    base = tmp_path_factory.mktemp("ends")
    scratch, grown = Home(base / "scratch"), Home(base / "grown")
    build(scratch, base / "corpus", TURNS)
    build(grown, base / "grown_corpus", TURNS[:3])
    build(grown, base / "grown_corpus", TURNS)
    return scratch, grown


def found(home: Home, **times: object) -> set[str]:
    with open_home(home.path, count_reads=False) as reader:
        answer = reader.search("half marathon lake away shoes", ("chats", "ivan"), k=20, types=["episodic"], **times)
        return {m.text for m in answer.memories}


@pytest.mark.parametrize("option", ["now", "as_of"])
def test_what_ended_is_left_out_of_answers_of_a_later_day_and_of_no_other(homes, option):
    lake, race = LAKE[3], RACE[3]
    assert lake in found(homes[0], **{option: "2026-07-08"}) and race not in found(homes[0], **{option: "2026-07-08"})
    assert lake not in found(homes[0], **{option: "2026-07-09"})
    assert race in found(homes[0], **{option: "2026-06-28"})
    assert AWAY[3] in found(homes[0], **{option: "2026-08-10"})  # its second sentence has no end


def test_without_a_time_nothing_is_left_out_and_history_has_every_version(homes):
    assert found(homes[0]) == found(homes[0], history=True) == {turn[3] for turn in TURNS}


def test_a_build_in_steps_has_the_ends_of_one_from_scratch(homes):
    scratch, grown = (published(home).table("chats", "versions") for home in homes)
    assert scratch.equals(grown)
    assert [verify_home(home).violations for home in homes] == [(), ()]


def test_what_ended_before_the_newest_memory_is_in_no_section_of_a_profile(homes):
    with open_home(homes[0].path, count_reads=False) as reader:
        lines = " ".join(line.text for line in reader.profile(("chats", "ivan")).lines)
    assert "marathon in Ghent" not in lines and "lake" not in lines and "away" not in lines


def test_a_formed_memory_ends_by_its_own_words_where_its_turn_does_not(homes):
    tables = published(homes[0]).tables(["memories", "versions"])
    formed = tables["memories"].filter(pl.col("unit") == "reflection", pl.col("text").str.contains("away"))
    ends = tables["versions"].join(formed, on="memory_id", how="semi")["valid_until"]
    assert [str(e.date()) for e in ends] == ["2026-07-09"]
