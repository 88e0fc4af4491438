"""Builds whose collection lets a language model write notes: calls, money, and what a delete leaves."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from palimpsest.formation.sentence_model import sentence_model_key
from palimpsest.memories.formed import formed_memories
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.estimate import dry_run
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import STAGES
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import verify_home
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from palimpsest_eval.testing.fake_programs import reflection_answer, turns_of
from tests.small_corpus import copy_built, write_chats

pytestmark = pytest.mark.lm
TURNS = [
    ("s1", "ann", "Ann", "I work at Basin as a tester.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "Remember that the safe code changes on zqfriday.", "2026-02-01T09:01:00Z"),
    ("s2", "ann", "Ann", "Our deadline for Heron is 12 March.", "2026-02-02T09:00:00Z"),
    ("s3", "bob", "Bob", "My locker is on the second floor.", "2026-02-03T10:00:00Z"),
]
ADDED = ("s4", "ann", "Ann", "I prefer tea over coffee.", "2026-02-04T09:00:00Z")


def reply(prompt: str) -> str:
    """Returns an inference for each turn; it leaks a word of earlier notes, where it read some."""
    leak = " zqfriday" if "zqfriday" in prompt else ""
    inferences = [
        {
            "statement": f"{who} cares for this: {text}",
            "confidence": 0.6,
            "evidence": [{"turn": n, "quote": text}],
            "alternatives": [f"Small talk{leak}."],
            "invalidation_conditions": [],
        }
        for n, who, text in turns_of(prompt)
    ]
    facts = [{"statement": text, "source_turn": n, "quote": text} for n, _, text in turns_of(prompt)]
    return reflection_answer({"inferences": inferences, "facts": facts})


@pytest.fixture(scope="module")
def server() -> Iterator[FakeLMServer]:
    with FakeLMServer({}, reply=reply) as started:
        yield started


@pytest.fixture(scope="module")
def built(server: FakeLMServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("reflected")
    with pytest.MonkeyPatch.context() as patch:
        set_model(patch, server)
        write(base / "corpus", TURNS)
        expected = dry_run(Home(base / "home"), [base / "corpus"], None)
        assert expected.counts["lm_calls"] == 3 and expected.cost > 0
        assert server.counts.requests == 0 and not Home(base / "home").lm_ledger.exists()
        build(Home(base / "home"), base / "corpus")
        assert server.counts.requests == 3
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path, server: FakeLMServer, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, Path]:
    set_model(monkeypatch, server)
    return copy_built(built, tmp_path)


def set_model(patch: pytest.MonkeyPatch, server: FakeLMServer) -> None:
    patch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
    patch.setenv("PALIMPSEST_LM_PRICE", "1,2")


def write(corpus: Path, turns: list[tuple[str, str, str, str, str]]) -> None:
    if not (corpus / "chats").exists():
        write_chats(corpus, turns)
        settings = corpus / "chats/collection.yaml"
        form = "form: [turns, reflection]\nreflection: both\npromote: [fact, preference, inference]"
        settings.write_text(settings.read_text().replace("unit: turn", form))
        return
    settings_text = (corpus / "chats/collection.yaml").read_text()
    (corpus / "chats/turns.jsonl").unlink()
    (corpus / "chats/collection.yaml").unlink()
    (corpus / "chats").rmdir()
    write_chats(corpus, turns)
    (corpus / "chats/collection.yaml").write_text(settings_text)


def build(home: Home, corpus: Path) -> None:
    run_without_dagster(home, make_plan(home, [corpus]))


def formed(home: Home) -> pl.DataFrame:
    return formed_memories(published(home).tables(["memories"])["memories"])


def test_items_of_both_become_memories_once_and_inferences_retire_nothing(made):
    home, corpus = made
    rows = formed(home).select("type", "text", "session_id").rows()
    assert sum("Basin" in text and kind == "semantic" for kind, text, _ in rows) == 1  # by rules and by the model
    assert sum(kind == "inference" for kind, *_ in rows) == 2  # the others use a word of a turn that they do not quote
    tables = published(home).tables(["versions", "relations", "notes"])
    assert tables["versions"]["is_latest"].all() and set(tables["notes"]["extractor"]) == {"lm"}  # on the same words
    assert tables["notes"].filter("is_saved")["quote"].str.contains("zqfriday").all()
    assert tables["notes"]["is_saved"].any()
    assert make_plan(home, [corpus]).nothing_to_do and verify_home(home).violations == ()


@pytest.mark.parametrize(("day", "calls"), [("2026-02-04", 1), pytest.param("2026-01-04", 3, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_one_more_session_costs_itself_and_what_reads_its_note_and_equals_scratch(made, tmp_path, server, day, calls):
    home, corpus = made
    write(corpus, [*TURNS, (*ADDED[:4], f"{day}T09:00:00Z")])
    before = server.counts.requests
    assert dry_run(home, [corpus], None).counts["lm_calls"] == calls
    build(home, corpus)
    assert server.counts.requests == before + calls
    scratch = Home(tmp_path / "scratch")
    build(scratch, corpus)
    assert sorted(formed(scratch)["memory_id"]) == sorted(formed(home)["memory_id"])


def test_another_sentence_model_forms_the_notes_again_and_pays_nothing_again(made, server, monkeypatch):
    home, corpus = made
    before = server.counts.requests
    assert make_plan(home, [corpus]).nothing_to_do
    other = replace(STAGES["notes"], environment=lambda: "another model")
    monkeypatch.setitem(STAGES, "notes", other)
    assert not make_plan(home, [corpus]).nothing_to_do
    build(home, corpus)
    assert published(home).manifest.stages["chats"]["notes"].cache_status == "done"
    assert server.counts.requests == before and make_plan(home, [corpus]).nothing_to_do


def test_the_stage_of_notes_depends_on_the_model_that_judges_sentences():
    assert STAGES["notes"].environment() == sentence_model_key()


def test_an_erased_turn_takes_all_that_rests_on_it_with_the_answers_that_read_it(made, server):
    home, corpus = made
    memories = published(home).tables(["memories"])["memories"]
    turn = memories.filter(pl.col("text").str.contains("zqfriday") & (pl.col("unit") == "turn"))["memory_id"][0]
    rests_on_it = formed(home).filter(pl.col("text").str.contains("zqfriday")).height
    assert rests_on_it and delete(home, memories=frozenset({turn})).memories == rests_on_it + 1
    assert not any(b"zqfriday" in p.read_bytes() for p in home.path.rglob("*") if p.is_file())
    assert verify_home(home).violations == ()
    before = server.counts.requests
    build(home, corpus)
    assert server.counts.requests == before + 2  # its session, and the one that read its note
    assert not formed(home)["text"].str.contains("zqfriday").any()


def test_a_session_beyond_the_budget_is_read_by_the_next_build(made):
    home, corpus = made
    write(corpus, [*TURNS, ADDED])
    for stage in ("documents", "chunks", "notes"):
        record = run_stage(stage_context(home, "chats", corpus / "chats", max_cost=1e-9), stage)
    assert (record.numbers["unpaid"], record.work.lm_calls) == (1, 0) and record.is_unpaid  # so that it runs again
    build(home, corpus)
    assert published(home).manifest.stages["chats"]["notes"].work.lm_calls == 1
    assert make_plan(home, [corpus]).nothing_to_do
