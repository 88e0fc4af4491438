"""Sentence-transformers models, by folder or by name.

Weights are safetensors only, and no code of a model runs. The library pools, normalizes and adds prompts.

It gets batches of a fixed shape: a matrix product of one shape adds up each row in one order, whatever the other rows
hold. So texts are padded to a multiple of 16 tokens, and batches to a fixed number of rows for each width: a vector is
then bit for bit the same in every batch, on one machine, and an interrupted or incremental build equals one from
scratch (measured: 0 of 6,000 vectors differ between two random orders, against about half with batches as they come).
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of
from palimpsest.memories.vector_space import Done, SpaceParts, unit_rows

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

WIDTH_STEP = 16
TOKENS_PER_BATCH = 512  # as fast as 2,048 here, and a few hundred texts cost half: fewer rows of padding
_TEXTS_PER_COUNT = 256
_THREADS = 2
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")  # *.model: sentencepiece
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_DEFAULT_TOKENS = 512
_TEXT_PROMPTS = ("document", "passage", "corpus")


def batch_shape(tokens: int, max_tokens: int | None) -> tuple[int, int]:
    """Returns (rows, width) of the batches in which a text of so many tokens is embedded."""
    width = -(-max(1, tokens) // WIDTH_STEP) * WIDTH_STEP
    if max_tokens:
        width = min(width, max_tokens)
    return max(1, TOKENS_PER_BATCH // width), width


@dataclass(frozen=True)
class SentenceModel:
    """See BatchEmbedder and QuestionEmbedder."""

    model: "SentenceTransformer"

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder. `done` gets the texts in order of their length."""
        out = np.zeros((len(texts), self.dimensions), np.float32)
        for batch, shape in self._batches(texts):
            out[batch] = self._encode([texts[i] for i in batch], shape)
            if done is not None:
                done(batch, out[batch])
        return out

    def embed(self, text: str) -> np.ndarray:
        """See QuestionEmbedder."""
        vector: np.ndarray = unit_rows(self.model.encode_query([text], show_progress_bar=False))[0]
        return vector

    @cached_property
    def dimensions(self) -> int:
        """Length of its vectors."""
        return self.model.get_embedding_dimension() or len(self.embed("x"))

    @cached_property
    def _prompt(self) -> str:
        return _text_prompt(self.model.prompts)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], tuple[int, int]]]:
        by_shape: dict[tuple[int, int], list[int]] = {}
        for i, tokens in enumerate(self._count_tokens(texts)):
            shape = batch_shape(tokens, self.model.max_seq_length) if tokens else (1, 0)
            by_shape.setdefault(shape, []).append(i)
        for shape, members in sorted(by_shape.items(), key=lambda item: item[0][1]):
            for start in range(0, len(members), shape[0]):
                yield members[start : start + shape[0]], shape

    def _count_tokens(self, texts: Sequence[str]) -> Iterator[int]:
        """Yields the number of tokens of each text that are read, its prompt with it; 0 where a model pads nothing."""
        for start in range(0, len(texts), _TEXTS_PER_COUNT):
            part = list(texts[start : start + _TEXTS_PER_COUNT])
            mask = self.model.preprocess(part, prompt=self._prompt, task="document").get("attention_mask")
            yield from [0] * len(part) if mask is None else mask.sum(dim=1).tolist()

    def _encode(self, texts: list[str], shape: tuple[int, int]) -> np.ndarray:
        rows, width = shape
        fixed: dict[str, Any] = {"processing_kwargs": {"text": {"padding": "max_length", "max_length": width}}}
        padding = fixed if width else {}
        filled = texts + [""] * (rows - len(texts))
        found = self.model.encode_document(
            filled, prompt=self._prompt, batch_size=rows, show_progress_bar=False, **padding
        )
        return unit_rows(found[: len(texts)])


def prepare_torch() -> None:
    """Sets threads that sleep when idle, and no progress bars; before anything loads torch.

    OpenMP threads that spin make one query take half a second here, and the policy is read when torch loads. Where
    something else loaded torch before (a Dagster code server with other code), one thread is the safe choice.
    """
    spinning = "torch" in sys.modules and os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE"
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    import torch
    from transformers.utils import logging

    torch.set_num_threads(1 if spinning else _THREADS)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def open_model(folder: Path) -> "SentenceTransformer":
    """Opens a model in the layout of sentence-transformers, in float32."""
    prepare_torch()
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(
        str(folder),
        device="cpu",
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"use_safetensors": True, "dtype": "float32"},
    ).eval()


def model_folder(setting: str) -> Path:
    """Returns the folder of a model, named or given; a name is fetched from the model hub unless it is there.

    Raises:
        PalimpsestError: there is no such folder or name, or the model is not safe to load.
    """
    folder = Path(setting) if Path(setting).is_absolute() else _fetch(setting)
    if not folder.is_dir():
        raise PalimpsestError(f"embedder {setting}: no such folder; name one with a sentence-transformers model")
    _check_files(setting, folder)
    return folder


def model_parts(setting: str, folder: Path, dimensions: int) -> SpaceParts:
    """Returns what the space of a model is named after."""
    prompts = _read(folder / "config_sentence_transformers.json").get("prompts") or {}
    pooling = _read(folder / "1_Pooling" / "config.json")
    modes = sorted(
        k.removeprefix("pooling_mode_").partition("_")[0]
        for k, v in pooling.items()
        if k.startswith("pooling_mode") and v is True
    )
    tokens = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    stamp = tuple((str(p), p.stat().st_mtime_ns) for p in _model_files(folder))
    return SpaceParts(
        Path(setting).name,
        _hash_files(str(folder), stamp),
        f"float32-{TOKENS_PER_BATCH}x{WIDTH_STEP}",
        str(pooling.get("pooling_mode") or "-".join(modes) or "pooled").partition("_")[0],
        dimensions,
        int(tokens or _DEFAULT_TOKENS),
        str(prompts.get("query") or ""),
        _text_prompt(prompts),
    )


def _text_prompt(prompts: Mapping[str, str | None]) -> str:
    """Returns the first prompt for texts. The library prefers an empty `document`, which it adds, to a `passage`."""
    return next((str(prompts[name]) for name in _TEXT_PROMPTS if prompts.get(name)), "")


@lru_cache(maxsize=2)
def load_model(setting: str) -> SentenceModel:
    """Loads a model once a process.

    Raises:
        PalimpsestError: the model is missing or not safe to load.
        ComponentFailed: it cannot be loaded.
    """
    folder = model_folder(setting)
    try:
        return SentenceModel(open_model(folder))
    except (OSError, ValueError, KeyError, RuntimeError) as e:
        reason = first_line_of(e)
        raise ComponentFailed(f"embedder {setting}: cannot be loaded ({reason}); use another model") from None


@lru_cache(maxsize=8)
def _fetch(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except HFValidationError:
        raise PalimpsestError(
            f"embedder {name[:80]!r} is no model's name; use minilm, bge-small-en-v1.5 or multilingual-e5-small"
        ) from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as e:
        reason = first_line_of(e)
        raise PalimpsestError(
            f"embedder {name}: not in the cache of the model hub, and the hub does not give it ({reason}); name a "
            "folder, or one of minilm, bge-small-en-v1.5, multilingual-e5-small"
        ) from None


def _check_files(setting: str, folder: Path) -> None:
    """Checks that a model has no code of its own, and that its weights are no pickles.

    Raises:
        PalimpsestError: it has.
    """
    for config in sorted(folder.rglob("config.json")):
        if "auto_map" in _read(config):
            raise PalimpsestError(f"embedder {setting}: {config.name} asks for code of its own, which never runs here")
    modules = _read(folder / "modules.json")
    for module in modules if isinstance(modules, list) else []:
        if not str(module.get("type", "")).startswith("sentence_transformers."):
            raise PalimpsestError(
                f"embedder {setting}: modules.json names {str(module.get('type'))[:60]!r}, code that never runs here"
            )
    folders = {p.parent for p in folder.rglob("*") if p.suffix in _PICKLES}
    bare = sorted(f for f in folders if not any(f.glob("*.safetensors")))
    if bare or not any(folder.rglob("*.safetensors")):
        place = bare[0] if bare else folder
        raise PalimpsestError(f"embedder {setting}: {place} has no safetensors; pickled weights are not loaded")


def _model_files(folder: Path) -> list[Path]:
    return sorted({p for pattern in _FILES for p in folder.rglob(pattern)})


@lru_cache(maxsize=8)
def _hash_files(folder: str, stamp: tuple[tuple[str, int], ...]) -> str:
    """Returns a hash of files; `stamp` has their times, so that a changed file is read again."""
    whole = hashlib.sha256()
    for name, _ in stamp:
        whole.update(Path(name).relative_to(folder).as_posix().encode() + b"\0")
        with Path(name).open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _read(path: Path) -> Any:
    """Returns a JSON file, or an empty mapping where it is missing or is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
