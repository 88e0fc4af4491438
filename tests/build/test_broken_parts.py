"""Each part of a home and of its corpora broken in turn: what is red, the line that says why, and that others go on.

Two collections: `notes` has the broken part, `chats` has a new turn. After a build `chats` serves its new turn and
`notes` what it served before, whatever part is broken, but for the few that hold what nobody could know again.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from tests.command import run
from tests.small_corpus import TURNS, write_chats, write_notes

NEW_TURN = ("s9", "ann", "Ann", "The tea is out of stock.", "2026-05-01T09:00:00Z")
NOTES, HOME, GOLDEN = "corpus/notes/", "home/", "data/golden/notes.jsonl"
QUESTION = (
    '{"id": "a", "question": "How long is the bridge?", "type": "fact", '
    '"evidence": [{"uri": "b.md", "quote": "The bridge is 40 metres long."}]}\n'
)


@dataclass(frozen=True)
class Part:
    """A part that is broken.

    Attributes:
        breaks: breaks it in a folder.
        code: of the build.
        line: is in the first line of the build that says something.
        is_answered: whether the home answers before that build.
    """

    breaks: Callable[[Path], object]
    code: int = 0
    line: str = ""
    is_answered: bool = True


def write(name: str, data: str | bytes) -> Callable[[Path], object]:
    """Returns what writes a file."""

    def put(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    return put


def settings(line: str) -> Callable[[Path], object]:
    """Returns what adds a line to the settings of notes."""
    return write(f"{NOTES}collection.yaml", f"name: notes\ndescription: notes\n{line}\n")


def overwrite(pattern: str, data: bytes = b"junk" * 300) -> Callable[[Path], object]:
    """Returns what overwrites every file of a pattern; there must be one."""

    def put(folder: Path) -> None:
        found = [path for path in folder.glob(pattern) if path.is_file()]
        assert found, pattern
        for path in found:
            path.write_bytes(data)

    return put


def remove(pattern: str) -> Callable[[Path], object]:
    """Returns what removes the files and folders of a pattern; there must be one."""

    def take(folder: Path) -> None:
        found = list(folder.glob(pattern))
        assert found, pattern
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return take


def both(*parts: Callable[[Path], object]) -> Callable[[Path], object]:
    """Returns what does several things."""
    return lambda folder: [part(folder) for part in parts]


SETTINGS = "collection notes is not built: collection.yaml: "
LOST = "restore a backup with palimpsest restore, or "
PARTS = {
    # what people write
    "settings, not YAML": Part(write(f"{NOTES}collection.yaml", "name: [notes\n"), 2, f"{SETTINGS}not valid YAML"),
    "settings, unknown field": Part(settings("unti: turn"), 2, f"{SETTINGS}has no field 'unti'; use unit"),
    "settings, bytes": Part(write(f"{NOTES}collection.yaml", b"\xff\xfe\0"), 2, f"{SETTINGS}not valid YAML"),
    "settings, schema": Part(settings("metadata_schema: {type: 5}"), 2, f"{SETTINGS}metadata_schema is no JSON Schema"),
    "settings, embedder": Part(settings("embedder: ./none"), 2, f"{SETTINGS}embedder "),
    "settings, no relations": Part(
        settings("document_relations: r"), 2, f"{SETTINGS}document_relations: cannot read r"
    ),
    "relations": Part(
        both(settings("document_relations: r"), write(f"{NOTES}r", "x;y")),
        2,
        "collection notes is not built: r: line 1",
    ),
    "questions": Part(
        write(f"{NOTES}questions.yaml", "- {id: a\n"), 2, "collection notes is not built: questions.yaml"
    ),
    "golden set": Part(write(GOLDEN, "{\n"), 2, "collection notes is not built: notes.jsonl line 1: line: invalid"),
    "golden question": Part(write(GOLDEN, '{"id": "a"}\n'), 2, "notes.jsonl line 1: question: field required"),
    "baseline": Part(
        both(write(GOLDEN, QUESTION), write("data/baselines/notes.json", "{")), 2, "baselines/notes.json: damaged"
    ),
    "sites": Part(write(f"{NOTES}sites.yaml", "- {none: 1}\n"), 2, "1 rejects"),
    "sidecar": Part(write(f"{NOTES}a.md.meta.yaml", "title: [x\n"), 2, "1 rejects"),
    "source": Part(write(f"{NOTES}c.pdf", b"%PDF-1.4 junk"), 2, "1 rejects"),
    "source, archive": Part(write(f"{NOTES}c.docx", b"PK\3\4junk"), 2, "1 rejects"),
    "source, circle of links": Part(lambda f: (f / NOTES / "l.md").symlink_to("l.md"), 2, "1 rejects"),
    "source, pipe": Part(lambda f: os.mkfifo(f / NOTES / "p.md"), 2, "1 rejects"),
    "folder of a collection": Part(remove("corpus/notes")),
    # what applications send
    "inbox": Part(overwrite("home/inbox/notes/*.jsonl", b"{junk\n"), 2, "1 rejects"),
    "inbox, a stranger's file": Part(write(f"{HOME}inbox/notes/zz.bin", b"\0\1")),
    # the record
    "log": Part(overwrite("home/log/notes/versions.parquet"), 0, "versions.parquet was damaged; it is made again"),
    "log and its copy": Part(overwrite("home/log/notes/versions*.parquet"), 2, LOST),
    "log, missing": Part(remove("home/log/notes"), 2, LOST),
    "log, texts": Part(overwrite("home/log/notes/texts/*"), 0, "the text of a.md, b.md was damaged; it is read again"),
    # what is made of it
    "pointer": Part(write(f"{HOME}published.json", "{"), 0, "readers see build 000001", is_answered=False),
    "builds": Part(remove("home/builds/*"), 0, "no build is left", is_answered=False),
    "index": Part(overwrite("home/builds/*/index.duckdb"), 0, "index.duckdb was damaged", is_answered=False),
    "table": Part(overwrite("home/builds/*/notes/memories.parquet"), 0, "it is made again from the record"),
    "manifest": Part(overwrite("home/builds/*/manifest.json"), 0, "it is written again from the tables"),
    "record of a stage": Part(overwrite("home/builds/*/notes/chunks.json"), 0, "written again from the manifest"),
    "vectors": Part(overwrite("home/embeddings/*/*.parquet"), 0, "their texts are embedded again"),
    "vectors, missing": Part(remove("home/embeddings")),
    # what is beside
    "home.json": Part(write(f"{HOME}home.json", "{"), 0, "home.json was damaged"),
    "format.json": Part(write(f"{HOME}format.json", "{"), 0, "format.json was damaged"),
    "events": Part(overwrite("home/logs/*", b"\xff\xfe\n")),
    "usage": Part(write(f"{HOME}usage/reads.jsonl", b"\xff\xfe\n")),
    "health": Part(write(f"{HOME}health/history.jsonl", b"\xff\xfe\n")),
    "proposals": Part(write(f"{HOME}proposals.jsonl", "junk\n")),
    "Dagster's settings": Part(write(f"{HOME}dagster/dagster.yaml", "a: [\n")),
}
QUICK = ("settings, unknown field", "questions", "golden set", "log and its copy", "builds", "sidecar")
WHOLE_HOME = {
    "decisions.jsonl": ("what was undone, confirmed or deleted by it would come back", b"junk\n"),
    "lm-ledger.sqlite": ("its answers were paid", b"junk" * 300),
}
"""What concerns all collections: nothing is built, for what it said would be lost, and the home answers as before."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a published build of both collections, and an operation in the inbox of notes."""
    folder = tmp_path_factory.mktemp("made")
    notes = {"a.md": "# Heron\n\nHeron is a project.\n", "b.md": "The bridge is 40 metres long.\n"}
    write_notes(write_chats(folder / "corpus"), notes)
    (folder / "data" / "golden").mkdir(parents=True)
    built = run("build", "--home", "home", "--corpus", "corpus", cwd=folder, PALIMPSEST_DATA=str(folder / "data"))
    assert built.returncode == 0, built.stderr
    ingest_text(folder / "home", "The harbour has two cranes.", user="ann", collection="notes")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, with a new turn in chats."""
    shutil.copytree(made, tmp_path / "copy")
    write_chats(tmp_path / "copy" / "corpus", [*TURNS, NEW_TURN])
    return tmp_path / "copy"


def answer(folder: Path, question: str, *options: str) -> str:
    """Returns what a query says; nothing where it fails."""
    done = run("query", question, "--home", "home", *options, cwd=folder)
    return done.stdout if done.returncode == 0 else ""


def build(folder: Path) -> tuple[int, list[str]]:
    """Returns the exit code of a build and what it says beside the names of stages."""
    env = {"PALIMPSEST_DATA": str(folder / "data")}
    done = run("build", "--home", "home", "--corpus", "corpus", cwd=folder, **env)
    return done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("stage ")]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in PARTS])
def test_a_broken_part_keeps_nothing_else_from_being_built_and_served(folder: Path, name: str) -> None:
    part = PARTS[name]
    part.breaks(folder)
    assert ("40 metres" in answer(folder, "How long is the bridge?", "--collection", "notes")) == part.is_answered
    code, lines = build(folder)
    assert code == part.code and (part.line in lines[0] if part.line else True), lines
    assert "out of stock" in answer(folder, "Is there tea in stock?", "--collection", "chats", "--user", "ann")
    assert "40 metres" in answer(folder, "How long is the bridge?", "--collection", "notes")


@pytest.mark.parametrize("name", WHOLE_HOME)
def test_a_record_of_the_whole_home_that_is_lost_stops_builds_alone(folder: Path, name: str) -> None:
    line, data = WHOLE_HOME[name]
    (folder / "home" / name).write_bytes(data)
    code, lines = build(folder)
    assert code == 2 and line in lines[-1] and name in lines[-1]
    assert "40 metres" in answer(folder, "How long is the bridge?", "--collection", "notes")


def test_settings_that_changed_take_effect_after_a_build_of_another_collection(folder: Path) -> None:
    settings("form: [turn, reflection]")(folder)
    done = run("build", "--home", "home", "--corpus", "corpus", "--collection", "chats", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert make_plan(Home(folder / "home"), [folder / "corpus"]).changed == ("notes",)
