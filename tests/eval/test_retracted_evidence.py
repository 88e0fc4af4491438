"""A user's delete or edit of what golden questions need does not close the gate for everybody."""

import shutil

import pytest

from palimpsest.core.ids import GENERAL
from palimpsest.export.edit_document import edit_memory
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import accept_home, judge_home

LOCKER, TEA = "My locker code is quixotic-77.", "I prefer tea in the morning."


def memory_of(home: Home, text: str) -> str:
    memories = published(home).table("chats", "memories")
    (memory_id,) = memories.filter(memories["text"] == text)["memory_id"]
    return memory_id


def delete_memory(home: Home) -> None:
    delete(home, memories=[memory_of(home, LOCKER)])


def delete_user(home: Home) -> None:
    delete(home, user="bob")


def edit(home: Home) -> None:
    edit_memory(home, ("chats", "bob", GENERAL), memory_of(home, LOCKER), "My locker code is baroque-12.")


@pytest.fixture
def own_home(judged_home, tmp_path):
    (accepted,) = accept_home(judged_home, "as it is")
    home = Home(shutil.copytree(judged_home.path, tmp_path / "home"))
    shutil.copytree(judged_home.embeddings, home.embeddings, dirs_exist_ok=True)  # a delete removes from it
    home.remember_sources({"chats": judged_home.path.parent / "corpus/chats"})
    yield home
    accepted.path.unlink()


@pytest.mark.parametrize("change", [delete_memory, delete_user, edit])
def test_a_question_whose_evidence_a_person_removed_is_named_and_the_build_is_published(own_home, change):
    change(own_home)
    run_without_dagster(own_home, make_plan(own_home, None))
    (got,) = judge_home(own_home).collections
    assert (got.status, got.reasons) == ("passed", ())
    assert got.run.retracted == ("q-locker",) and "q-locker" not in got.run.per_query
    (warning,) = [w for w in got.warnings if "people deleted or edited" in w]
    assert "1 question not judged" in warning and "q-locker" in warning and "data/golden/chats.jsonl" in warning


def test_evidence_that_vanishes_with_its_source_still_closes_the_gate(own_home):
    delete_user(own_home)
    turns = own_home.sources["chats"] / "turns.jsonl"
    before = turns.read_text()
    turns.write_text("".join(line for line in before.splitlines(keepends=True) if TEA not in line))
    try:
        run_without_dagster(own_home, make_plan(own_home, None))
        (got,) = judge_home(own_home).collections
    finally:
        turns.write_text(before)
    assert got.status == "failed" and got.run.retracted == ("q-locker",)
    assert "q-tea" in got.reasons[-1]
