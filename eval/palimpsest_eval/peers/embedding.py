"""The embedder of every peer: all-MiniLM-L6-v2 by sentence-transformers, with its calls, texts and seconds counted."""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palimpsest_eval.training.weights import model_folder

DIMENSIONS = 384
_THREADS, _BATCH = 2, 32


@dataclass(frozen=True)
class EmbeddingWork:
    """Texts that were embedded, and the seconds that this took."""

    texts: int = 0
    seconds: float = 0.0

    def since(self, earlier: "EmbeddingWork") -> "EmbeddingWork":
        """Returns what was done after an earlier count."""
        return EmbeddingWork(self.texts - earlier.texts, self.seconds - earlier.seconds)


class CountedEmbedder:
    """Unit vectors of texts. Nothing is loaded before the first text, or `load`; `work` counts what was done."""

    def __init__(self, cache: Path | None = None):
        """Makes an embedder.

        Args:
            cache: a file of vectors: texts in it are not embedded again, and `save` adds the others.
        """
        self.work = EmbeddingWork()
        self._cache = cache
        self._model: Any = None
        self._known: dict[bytes, Any] = {}
        if cache is not None and cache.exists():
            import numpy as np

            stored = np.load(cache)
            self._known = dict(zip((key.tobytes() for key in stored["keys"]), stored["vectors"], strict=True))

    def load(self) -> None:
        """Loads the model and embeds one text, so that later times are of embedding alone."""
        self._encode(["warm up"])

    def encode(self, texts: Sequence[str]) -> Any:
        """Returns the vectors of texts, shape (n, 384) float32, normalised."""
        started = time.perf_counter()
        vectors = self._vectors(list(texts))
        self.work = EmbeddingWork(self.work.texts + len(texts), self.work.seconds + time.perf_counter() - started)
        return vectors

    def save(self) -> None:
        """Writes all known vectors to the cache."""
        if self._cache is None or not self._known:
            return
        import numpy as np

        keys = np.stack([np.frombuffer(key, np.uint8) for key in self._known])
        np.savez(self._cache, keys=keys, vectors=np.stack(list(self._known.values())))

    def _vectors(self, texts: list[str]) -> Any:
        if self._cache is None:
            return self._encode(texts)
        import numpy as np

        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if missing:
            self._known |= dict(zip(missing, self._encode(list(missing.values())), strict=True))
        return np.stack([self._known[key] for key in keys]) if keys else np.zeros((0, DIMENSIONS), np.float32)

    def _encode(self, texts: list[str]) -> Any:
        import torch

        if self._model is None:
            from sentence_transformers import SentenceTransformer

            torch.set_num_threads(_THREADS)
            self._model = SentenceTransformer(
                str(model_folder()), device="cpu", model_kwargs={"dtype": getattr(torch, number_format())}
            )
        return (
            self._model.encode(
                texts, batch_size=_BATCH, show_progress_bar=False, normalize_embeddings=True, convert_to_tensor=True
            )
            .float()
            .numpy()
        )


def number_format() -> str:
    """Returns bfloat16 where the processor multiplies it, else float32."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().split() if cpuinfo.exists() else []
    return "bfloat16" if {"avx512_bf16", "amx_bf16"} & set(flags) else "float32"


def set_environment() -> None:
    """Sets what must be set before torch is loaded: threads that sleep when idle, no model hub."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OMP_NUM_THREADS", str(_THREADS))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
