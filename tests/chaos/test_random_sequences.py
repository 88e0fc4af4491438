"""Random sequences of every kind of edit, setting and decision: what grew equals what is built from scratch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from palimpsest.build.delete import delete
from palimpsest.build.digest import digest
from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.build.stages import indexed_tables
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import Build, published
from palimpsest.store.decisions import append_decisions
from palimpsest.store.home import Home
from tests.small_corpus import TURNS, write_chats, write_notes
from tests.word_embedder import WordEmbedder

SEQUENCES = 200
ROUNDS, CHANGES = 3, 3

TEXTS = (
    "The deadline of project Heron is {n} April.",
    "I prefer tea number {n} in the morning.",
    "We decided to use plan {n}.",
    "Who has key {n}?",
    "The bridge is {n} metres long.",
)


class Corpus:
    """A corpus that changes, and its home."""

    def __init__(self, folder: Path, random: Random):
        self.folder, self.random, self.turns = folder, random, list(TURNS)
        self.home = Home(folder / "home")
        self.corpus = folder / "corpus"
        self.notes = {"a.md": "# Heron\n\nHeron is a project.\n", "b.md": "The bridge is 40 metres long.\n"}
        self.settings = {"unit": "turn", "user_id": "ann"}
        self.number = 0
        self.write()

    def write(self) -> None:
        write_chats(self.corpus, self.turns)
        lines = "".join(f"{key}: {value}\n" for key, value in sorted(self.settings.items()))
        (self.corpus / "chats/collection.yaml").write_text(f"name: chats\ndescription: small talk\n{lines}")
        shutil.rmtree(self.corpus / "notes", ignore_errors=True)
        write_notes(self.corpus, self.notes, on_removed="retire")

    def change(self) -> None:
        self.number += 1
        text = self.random.choice(TEXTS).format(n=self.random.randrange(1, 29))
        at = self.random.randrange(len(self.turns))
        self.random.choice(KINDS)(self, text, at)
        self.write()

    def build(self) -> Build:
        plan = make_plan(self.home, [self.corpus])
        if not plan.nothing_to_do:
            return run_without_dagster(self.home, plan)
        build = published(self.home)
        assert build is not None
        return build


def edit_turn(c: Corpus, text: str, at: int) -> None:
    c.turns[at] = (*c.turns[at][:3], text, c.turns[at][4])


def add_turn(c: Corpus, text: str, at: int) -> None:
    day = f"2026-05-{c.random.randrange(1, 29):02}T09:00:00Z"
    c.turns.insert(at, (*c.turns[at][:3], text, day))


def remove_turn(c: Corpus, text: str, at: int) -> None:
    if len(c.turns) > 3:
        del c.turns[at]


def reorder_turns(c: Corpus, text: str, at: int) -> None:
    c.turns = c.turns[at:] + c.turns[:at]


def edit_file(c: Corpus, text: str, at: int) -> None:
    c.notes[c.random.choice(sorted(c.notes))] = f"# Heron\n\n{text}\n"


def add_file(c: Corpus, text: str, at: int) -> None:
    c.notes[f"n{c.number}.md"] = f"{text}\n"


def remove_file(c: Corpus, text: str, at: int) -> None:
    if len(c.notes) > 1:
        del c.notes[c.random.choice(sorted(c.notes))]


def rename_file(c: Corpus, text: str, at: int) -> None:
    c.notes[f"r{c.number}.md"] = c.notes.pop(c.random.choice(sorted(c.notes)))


def form_memories(c: Corpus, text: str, at: int) -> None:
    if c.settings.pop("form", None) is None:
        c.settings |= {
            "form": "[turn, reflection]",
            "promote": c.random.choice(("[fact, gap]", "[preference, summary]")),
        }
    else:
        del c.settings["promote"]


def weigh_otherwise(c: Corpus, text: str, at: int) -> None:
    c.settings["weights"] = f"{{recency: {c.random.choice((0.1, 0.5))}}}"


def remember(c: Corpus, text: str, at: int) -> None:
    if published(c.home) is not None:
        ingest_text(c.home.path, text, user="ann", collection="chats", key=f"k{c.number}")


def undo_relation(c: Corpus, text: str, at: int) -> None:
    if (build := published(c.home)) is not None:
        relations = build.tables(["relations"])["relations"].filter(label="UPDATE")["relation_id"].sort().to_list()
        append_decisions(c.home.decisions, "undo", relations[:1])


def delete_document(c: Corpus, text: str, at: int) -> None:
    build = published(c.home)
    built = set(build.table("notes", "documents")["uri"]) if build is not None else set()
    if len(c.notes) > 1 and (known := sorted(built & c.notes.keys())):
        name = c.random.choice(known)
        del c.notes[name]
        c.write()
        c.build()
        delete(c.home, document=name, user=None, collection="notes")


KINDS: tuple[Callable[[Corpus, str, int], None], ...] = (
    *(edit_turn, add_turn, remove_turn, reorder_turns, edit_file, add_file, remove_file, rename_file),
    *(form_memories, weigh_otherwise, remember, undo_relation, delete_document),
)


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)
    # A sequence may remove all sources; the guard against that has tests of its own.
    monkeypatch.setattr("palimpsest.sources.ingest.check_removals", lambda *_: None)


@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s == 0 else pytest.mark.slow) for s in range(SEQUENCES)])
def test_what_grew_equals_what_is_built_from_scratch(tmp_path: Path, seed: int) -> None:
    made = Corpus(tmp_path, Random(seed))
    grown = made.build()
    for _ in range(ROUNDS):
        for _ in range(CHANGES):
            made.change()
        grown = made.build()
    fresh = Home(tmp_path / "fresh")
    fresh.create()
    for name in ("log", "inbox", "decisions.jsonl"):
        source = made.home.path / name
        if source.is_dir():
            shutil.copytree(source, fresh.path / name, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy(source, fresh.path / name)
    scratch = run_without_dagster(fresh, make_plan(fresh, [made.corpus]))
    assert digest(grown.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
