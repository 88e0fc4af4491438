"""Recognizes a public data set by its shape and converts it to a suite, once per content and code of the loaders."""

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest_eval.suites.loaders.beam import beam_files, load_beam, load_beam_folder, load_beam_suite
from palimpsest_eval.suites.loaders.beir import load_beir
from palimpsest_eval.suites.loaders.conversations import load_locomo, load_longmemeval
from palimpsest_eval.suites.loaders.lmeb import is_lmeb, lmeb_files, load_lmeb
from palimpsest_eval.suites.loaders.memconflict import load_memconflict
from palimpsest_eval.suites.loaders.multihop import load_hotpot, load_musique
from palimpsest_eval.suites.loaders.suite_draft import Item, SuiteDraft

Loader = Callable[[list[Item], SuiteDraft], None]

_LOADERS: tuple[tuple[str, frozenset[str], Loader], ...] = (
    ("LoCoMo", frozenset({"sample_id", "conversation", "qa"}), load_locomo),
    ("LongMemEval", frozenset({"question_id", "haystack_sessions", "question"}), load_longmemeval),
    ("LongMemEval", frozenset({"id", "conversation", "questions"}), load_longmemeval),
    ("BEAM", frozenset({"conversation_id", "chat", "probing_questions"}), load_beam),
    ("MemConflict", frozenset({"ID", "Full_Session_Chain"}), load_memconflict),
    ("MuSiQue", frozenset({"id", "paragraphs", "question"}), load_musique),
    ("HotpotQA or 2WikiMultihopQA", frozenset({"context", "supporting_facts", "question"}), load_hotpot),
)
"""(name, keys of one item, loader) of each data set in one file; the first whose keys are present reads it."""

_CODE = ("palimpsest_eval.suites.loaders", "palimpsest_eval.suites.qrels", "palimpsest_eval.suites.stale")
_BEIR_FILES = ("corpus.jsonl", "queries.jsonl")
_SUITE_FILES = (*_BEIR_FILES, "qrels.tsv")


def as_suite(path: Path, cache: Path, only: str | None = None) -> Path:
    """Returns the folder of a suite: `path` where it is one, else its conversion below `cache`.

    Args:
        path: a suite, a folder of BEIR, LMEB or BEAM, or a file of a known data set.
        cache: the folder of conversions.
        only: the one data set that is accepted, in its own shape or as a suite; None means any.

    Raises:
        PalimpsestError: `path` is none of them; the message names what it lacks.
    """
    if not path.exists():
        raise PalimpsestError(f"suite {path}: no such file or folder")
    parts, load = _file(path, only) if path.is_file() else _folder(path, only)
    if load is None:
        return path
    for part in parts:
        if not part.is_file():
            raise PalimpsestError(f"suite {path}: needs {part.name} ({part})")
    key = content_id(*map(file_hash, parts), only or "", code_hash(_CODE))
    name = path.resolve().stem if path.is_file() else path.resolve().name
    folder = cache / key / name
    if not folder.is_dir():
        draft = SuiteDraft(path)
        load(path, draft)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
            written = draft.write(Path(scratch) / name)
            if not folder.is_dir():
                shutil.move(written, folder)
    return folder


_Source = tuple[list[Path], Callable[[Path, SuiteDraft], None] | None]
"""The files of a data set, and what adds them to a draft; None where it is a suite already."""


def _folder(path: Path, only: str | None) -> _Source:
    """Returns the source of a folder.

    Raises:
        PalimpsestError: it is not of the data set that is accepted.
    """
    if is_lmeb(path) and only in (None, "LMEB"):
        return lmeb_files(path), load_lmeb
    if (path / "qrels.tsv").exists() and only != "LMEB":
        return [path / name for name in _SUITE_FILES], load_beam_suite if only == "BEAM" else None
    if (chats := beam_files(path)) and only in (None, "BEAM"):
        return chats, load_beam_folder
    if only == "LMEB":
        return lmeb_files(path), load_lmeb
    if only is not None:
        raise PalimpsestError(f"suite {path}: no {only}: the folder has none of its files, and no qrels.tsv of a suite")
    if (path / "qrels").is_dir():
        return [*(path / f for f in _BEIR_FILES), *sorted((path / "qrels").glob("*.tsv"))], load_beir
    return [], None


def _file(path: Path, only: str | None) -> _Source:
    return [path], partial(_load_file, only=only)


def _load_file(path: Path, draft: SuiteDraft, only: str | None) -> None:
    items = _read_items(path)
    keys = set(items[0])
    loaders = [entry for entry in _LOADERS if only in (None, entry[0])]
    known = next(((name, loader) for name, required, loader in loaders if required <= keys), None)
    if known is None:
        names = ", ".join(sorted({name for name, _, _ in _LOADERS})) + ", BEIR"
        wanted = " or ".join(", ".join(sorted(required)) for _, required, _ in loaders)
        lacks = f"not a known data set ({names})" if only is None else f"no {only}: an item must have {wanted}"
        raise PalimpsestError(f"suite {path}: {lacks}; its items have {', '.join(sorted(keys)[:8])}")
    name, loader = known
    try:
        loader(items, draft)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as e:
        raise PalimpsestError(f"suite {path}: looks like {name}, but an item lacks or breaks {str(e)[:80]}") from None


def _read_items(path: Path) -> list[Item]:
    """Reads a JSON array, an object with the array under `data`, JSONL, or a Parquet table of a data hub."""
    if path.suffix == ".parquet":
        return _read_parquet(path)
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


def _read_parquet(path: Path) -> list[Item]:
    import polars as pl

    try:
        items = pl.read_parquet(path).to_dicts()
    except (pl.exceptions.PolarsError, OSError) as e:
        raise PalimpsestError(f"suite {path}: no readable Parquet table ({str(e)[:80]})") from None
    if not items:
        raise PalimpsestError(f"suite {path}: the table has no row")
    return items
