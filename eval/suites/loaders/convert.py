"""Recognizes a public data set by its shape and converts it to a suite, once per content and code of the loaders."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.eval.suites.loaders.beir import load_beir
from palimpsest.eval.suites.loaders.conversations import load_locomo, load_longmemeval
from palimpsest.eval.suites.loaders.multihop import load_hotpot, load_musique
from palimpsest.eval.suites.loaders.suite_draft import Item, SuiteDraft

Loader = Callable[[list[Item], SuiteDraft], None]

_LOADERS: tuple[tuple[str, frozenset[str], Loader], ...] = (
    ("LoCoMo", frozenset({"sample_id", "conversation", "qa"}), load_locomo),
    ("LongMemEval", frozenset({"question_id", "haystack_sessions", "question"}), load_longmemeval),
    ("LongMemEval", frozenset({"id", "conversation", "questions"}), load_longmemeval),
    ("MuSiQue", frozenset({"id", "paragraphs", "question"}), load_musique),
    ("HotpotQA or 2WikiMultihopQA", frozenset({"context", "supporting_facts", "question"}), load_hotpot),
)
"""(name, keys of one item, loader) of each data set in one file; the first whose keys are present reads it."""

_CODE = ("palimpsest.eval.suites.loaders", "palimpsest.eval.suites.qrels")
_BEIR_FILES = ("corpus.jsonl", "queries.jsonl")


def as_suite(path: Path, cache: Path) -> Path:
    """Returns the folder of a suite: `path` where it is one, else its conversion below `cache`.

    Raises:
        PalimpsestError: `path` is neither a suite, nor a BEIR folder, nor a file of a known data set; the message
            names what it lacks.
    """
    if path.is_dir() and ((path / "qrels.tsv").exists() or not (path / "qrels").is_dir()):
        return path
    if not path.exists():
        raise PalimpsestError(f"suite {path}: no such file or folder")
    parts = [path] if path.is_file() else [*(path / f for f in _BEIR_FILES), *sorted((path / "qrels").glob("*.tsv"))]
    for part in parts:
        if not part.is_file():
            raise PalimpsestError(f"suite {path}: a BEIR folder needs {part.name}")
    key = content_id(*map(file_hash, parts), code_hash(_CODE))
    name = path.resolve().stem if path.is_file() else path.resolve().name
    folder = cache / key / name
    if not folder.is_dir():
        draft = SuiteDraft(path)
        if path.is_dir():
            load_beir(path, draft)
        else:
            _load_file(path, draft)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
            written = draft.write(Path(scratch) / name)
            if not folder.is_dir():
                shutil.move(written, folder)
    return folder


def _load_file(path: Path, draft: SuiteDraft) -> None:
    items = _read_items(path)
    keys = set(items[0])
    known = next(((name, loader) for name, required, loader in _LOADERS if required <= keys), None)
    if known is None:
        names = ", ".join(sorted({name for name, _, _ in _LOADERS}))
        raise PalimpsestError(
            f"suite {path}: not a known data set ({names}, BEIR); its items have {', '.join(sorted(keys)[:8])}"
        )
    name, loader = known
    try:
        loader(items, draft)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise PalimpsestError(f"suite {path}: looks like {name}, but an item lacks or breaks {str(e)[:80]}") from None


def _read_items(path: Path) -> list[Item]:
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
        raise PalimpsestError(f"suite {path}: must be a list of JSON objects")
    return value
