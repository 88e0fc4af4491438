"""Token counts as the embedder counts them, without loading the embedder."""

import gzip
import zlib
from collections.abc import Callable, Sequence
from functools import cache

from tokenizers import Tokenizer

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import SHIPPED

CountTokens = Callable[[Sequence[str]], list[int]]

_FILE = "models/tokenizer.json.gz"
_BATCH = 4096  # bounds the memory of the encodings


@cache
def tokenizer() -> Tokenizer:
    """Returns the embedder's tokenizer without truncation and padding.

    Raises:
        ComponentFailed: its file is missing or damaged.
    """
    try:
        loaded = Tokenizer.from_str(gzip.decompress((SHIPPED / _FILE).read_bytes()).decode("utf-8"))
    except (OSError, EOFError, zlib.error, ValueError):
        raise ComponentFailed(f"data/{_FILE} cannot be read; install palimpsest-memory again") from None
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


def count_tokens_batch(texts: Sequence[str]) -> list[int]:
    """Returns the number of tokens of each text, special tokens not counted."""
    counts: list[int] = []
    for at in range(0, len(texts), _BATCH):
        encoded = tokenizer().encode_batch_fast(list(texts[at : at + _BATCH]), add_special_tokens=False)
        counts += [len(e) for e in encoded]
    return counts
