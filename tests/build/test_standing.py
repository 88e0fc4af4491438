"""Standing questions: answered by each build for each user, compared with the build before, and gone with a delete."""

from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan, say_what_is_broken
from palimpsest.query.reader import open_home
from palimpsest.query.standing import StandingAnswer
from palimpsest.store.home import Home
from palimpsest.store.standing_questions import load_standing_questions
from tests.small_corpus import TURNS, copy_built, write_chats

QUESTIONS = """
- {id: deadline, question: "When is the deadline of Heron?", k: 2}
- {id: tea, question: "Who prefers tea?"}
"""
OF_BOB = """- {id: canteen, question: "When does the canteen close?", user: bob}"""
LATER = ("s4", "ann", "Ann", "The deadline of project Heron is 9 May, not 20 April.", "2026-04-01T09:00:00Z")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("standing")
    corpus = write_chats(base / "corpus")
    (corpus / "chats" / "questions.yaml").write_text(QUESTIONS)
    run_without_dagster(Home(base / "home"), make_plan(Home(base / "home"), [corpus]))
    return base


def answers(home: Home, user: str = "ann") -> dict[str, StandingAnswer]:
    with open_home(home.path, count_reads=False) as reader:
        return {a.stored.question_id: a for a in reader.standing_answers(("chats", user))}


def test_each_build_answers_for_each_user_and_an_unchanged_one_has_nothing_to_do(built: Path) -> None:
    home = Home(built / "home")
    found = answers(home)
    assert "20 April" in found["deadline"].memories[0].text and len(found["deadline"].memories) <= 2
    assert not found["deadline"].added and "tea" in found["tea"].lines()[0]
    assert all("canteen" in m.text or "locker" in m.text for m in answers(home, "bob")["tea"].memories)
    assert make_plan(home, [built / "corpus"]).nothing_to_do


def test_the_next_build_shows_what_is_new_and_a_delete_takes_it_back(built: Path, tmp_path: Path) -> None:
    home, corpus = copy_built(built, tmp_path)
    write_chats(corpus, [*TURNS, LATER])
    run_without_dagster(home, make_plan(home, [corpus]))
    answer = answers(home)["deadline"]
    (new,) = [m for m in answer.memories if "9 May" in m.text]
    assert new.memory_id in answer.added and any(line.startswith("+ ") for line in answer.lines())
    (corpus / "chats" / "questions.yaml").write_text("- {id: wrong}\n")  # no mistake in it stops a delete
    delete(home, session="s4")
    assert new.memory_id not in {m.memory_id for m in answers(home)["deadline"].memories}
    assert not [p for p in home.path.rglob("standing.json") if new.memory_id in p.read_text()]


def test_a_change_of_the_questions_alone_makes_a_build(built: Path, tmp_path: Path) -> None:
    home, corpus = copy_built(built, tmp_path)
    (corpus / "chats" / "questions.yaml").write_text(OF_BOB)
    plan = make_plan(home, [corpus])
    assert not plan.nothing_to_do
    run_without_dagster(home, plan)
    assert not answers(home) and "three" in answers(home, "bob")["canteen"].memories[0].text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {id: a}\n", "question 1: question: field required"),
        ("- {id: a, question: b, kk: 1}\n", "question 1: kk: "),
        ("- {id: a, question: b}\n- {id: a, question: c}\n", "id 'a' is used twice"),
        ("question: b\n", "must be a list of questions"),
        ("- {id: a\n", "not valid YAML"),
        ("- {id: a, question: b, k: 500}\n", "question 1: k: "),
    ],
)
def test_a_mistake_in_the_file_is_one_line_before_anything_is_built(tmp_path: Path, text: str, problem: str) -> None:
    corpus = write_chats(tmp_path / "corpus")
    (corpus / "chats" / "questions.yaml").write_text(text)
    with pytest.raises(PalimpsestError, match=f"questions.yaml: {problem}") as failed:
        say_what_is_broken(make_plan(Home(tmp_path / "home"), [corpus]))
    assert "\n" not in str(failed.value)


def test_a_collection_without_the_file_has_no_questions(tmp_path: Path) -> None:
    assert load_standing_questions(tmp_path) == ()
