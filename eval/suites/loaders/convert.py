"""Tells a public set by its shape and lays it out as a suite, once for each content and loader."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.eval.suites.loaders.beir import beir
from palimpsest.eval.suites.loaders.conversation_suites import locomo, longmemeval
from palimpsest.eval.suites.loaders.layout import Layout
from palimpsest.eval.suites.loaders.multihop import hotpot, musique

Loader = Callable[[list[dict[str, Any]], Layout], None]

# What a question or conversation of each set has, and what reads it; the first that fits.
SHAPES: tuple[tuple[str, frozenset[str], Loader], ...] = (
    ("LoCoMo", frozenset({"sample_id", "conversation", "qa"}), locomo),
    ("LongMemEval", frozenset({"question_id", "haystack_sessions", "question"}), longmemeval),
    ("LongMemEval", frozenset({"id", "conversation", "questions"}), longmemeval),
    ("MuSiQue", frozenset({"id", "paragraphs", "question"}), musique),
    ("HotpotQA or 2WikiMultihopQA", frozenset({"context", "supporting_facts", "question"}), hotpot),
)
_FILES = ("corpus.jsonl", "queries.jsonl")


def as_suite(path: Path, cache: Path) -> Path:
    """Returns the folder of a suite: `path` where it is one, else its conversion below `cache`.

    Raises:
        PalimpsestError: `path` is neither a suite, nor a BEIR folder, nor a file of a set that is known; the message
            names what it lacks.
    """
    if path.is_dir() and ((path / "qrels.tsv").exists() or not (path / "qrels").is_dir()):
        return path
    if not path.exists():
        raise PalimpsestError(f"suite {path}: no such file or folder")
    parts = [path] if path.is_file() else [*(path / f for f in _FILES), *sorted((path / "qrels").glob("*.tsv"))]
    for part in parts:
        if not part.is_file():
            raise PalimpsestError(f"suite {path}: a BEIR folder needs {part.name}")
    key = content_id(*map(file_hash, parts), code_hash(("palimpsest.eval.suites.loaders",)))
    name = path.resolve().stem if path.is_file() else path.resolve().name
    folder = cache / key / name
    if not folder.is_dir():
        out = Layout(path)
        if path.is_dir():
            beir(path, out)
        else:
            _fill(path, out)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as aside:
            made = out.write(Path(aside) / name)
            if not folder.is_dir():
                shutil.move(made, folder)
    return folder


def _fill(path: Path, out: Layout) -> None:
    items = _items(path)
    keys = set(items[0])
    found = next(((name, loader) for name, needs, loader in SHAPES if needs <= keys), None)
    if found is None:
        known = ", ".join(sorted({name for name, _, _ in SHAPES}))
        raise PalimpsestError(
            f"suite {path}: no set that is known ({known}, BEIR); its items have {', '.join(sorted(keys)[:8])}"
        )
    name, loader = found
    try:
        loader(items, out)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise PalimpsestError(f"suite {path}: looks like {name}, but an item lacks or breaks {str(e)[:80]}") from None


def _items(path: Path) -> list[dict[str, Any]]:
    """Reads a JSON array, an object with the array under `data`, or JSONL."""
    try:
        text = path.read_text(encoding="utf-8")
        try:
            value = json.loads(text)
        except ValueError:
            value = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (OSError, ValueError, RecursionError) as e:
        raise PalimpsestError(f"suite {path}: not JSON or JSONL ({str(e)[:80]})") from None
    if isinstance(value, dict):
        value = value["data"] if isinstance(value.get("data"), list) else [value]
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise PalimpsestError(f"suite {path}: must hold a list of JSON objects")
    return value
