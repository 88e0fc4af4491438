"""A corpus of a few lines that shows every kind of relation; tests write it where they need it."""

import json
import shutil
from pathlib import Path

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import Build
from palimpsest.store.home import Home

TURNS = [
    ("s1", "ann", "Ann", "The deadline of project Heron is 12 March.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "I prefer tea in the morning.", "2026-02-01T09:01:00Z"),
    ("s2", "ann", "Ann", "The deadline of project Heron is now 20 April instead of 12 March.", "2026-03-01T09:00:00Z"),
    ("s3", "bob", "Bob", "My locker code is quixotic-77.", "2026-02-03T10:00:00Z"),
    ("s3", "bob", "Bob", "The canteen closes at three.", "2026-02-03T10:01:00Z"),
]


def write_chats(corpus: Path, turns: list[tuple[str, str, str, str, str]] = TURNS, name: str = "chats") -> Path:
    """Writes one collection of conversations and returns the corpus folder."""
    folder = corpus / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "collection.yaml").write_text(f"name: {name}\ndescription: small talk\nunit: turn\nuser_id: ann\n")
    keys = ("session_id", "user_id", "speaker", "text", "timestamp")
    lines = [json.dumps(dict(zip(keys, turn, strict=True))) for turn in turns]
    (folder / "turns.jsonl").write_text("\n".join(lines) + "\n")
    return corpus


def write_notes(corpus: Path, notes: dict[str, str], name: str = "notes", **settings: str) -> Path:
    """Writes one collection of text files and returns the corpus folder."""
    folder = corpus / name
    folder.mkdir(parents=True, exist_ok=True)
    extra = "".join(f"{k}: {v}\n" for k, v in settings.items())
    (folder / "collection.yaml").write_text(f"name: {name}\ndescription: notes\n{extra}")
    for uri, text in notes.items():
        path = folder / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return corpus


def build_twice(folder: Path, vectors: Path) -> Path:
    """Makes a home of two builds in `folder / "home"`: the second has another version of one source.

    The vectors of a store that tests share are copied into the home.
    """
    notes = {"a.md": "The bridge is 40 metres long.\n", "b.md": "The harbour has two cranes.\n"}
    corpus = write_notes(write_chats(folder / "corpus"), notes)
    home = Home(folder / "home", vectors)
    home.create()
    run_without_dagster(home, make_plan(home, [corpus]))
    write_notes(corpus, {"a.md": "The bridge is 41 metres long.\n"})
    run_without_dagster(home, make_plan(home, [corpus]))
    shutil.copytree(vectors, folder / "home" / "embeddings", dirs_exist_ok=True)
    return folder


def copy_built(built: Path, to: Path, vectors: Path | None = None) -> tuple[Home, Path]:
    """Copies the folders `home` and `corpus` of a build, so that a test may change both; returns the copies."""
    for name in ("home", "corpus"):
        shutil.copytree(built / name, to / name)
    home, corpus = Home(to / "home", vectors), to / "corpus"
    home.remember_sources(make_plan(home, [corpus]).collections)
    return home, corpus


def build_home(home: Home, *corpora: Path) -> Build:
    """Builds what changed in some corpora, or in the collections that the home knows."""
    return run_without_dagster(home, make_plan(home, list(corpora) or None))


def built_notes(
    folder: Path, vectors: Path | None, notes: dict[str, str], name: str = "notes", **settings: str
) -> tuple[Home, Path]:
    """Builds a home of one collection of text files; returns it and its corpus."""
    home, corpus = Home(folder / "home", vectors), write_notes(folder / "corpus", notes, name, **settings)
    build_home(home, corpus)
    return home, corpus
