"""Any sentence-transformers model, by folder or by name. Weights are safetensors only, and no code of a model runs.

Texts are embedded one by one, so that a vector is a pure function of its text.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of
from palimpsest.memories.vector_space import Done, SpaceParts, unit_rows

_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")  # *.model: sentencepiece
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_DEFAULT_TOKENS = 512
_TEXTS_PER_REPORT = 32


@dataclass(frozen=True)
class SentenceModel:
    """See BatchEmbedder and QuestionEmbedder."""

    model: Any
    query_prefix: str
    text_prefix: str

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder."""
        parts = []
        for start in range(0, len(texts), _TEXTS_PER_REPORT):
            rows = list(range(start, min(start + _TEXTS_PER_REPORT, len(texts))))
            parts.append(np.concatenate([self._embed(self.text_prefix + texts[i]) for i in rows]))
            if done is not None:
                done(rows, parts[-1])
        return np.concatenate(parts) if parts else np.zeros((0, self.dimensions), np.float32)

    def embed(self, text: str) -> np.ndarray:
        """See QuestionEmbedder."""
        vector: np.ndarray = self._embed(self.query_prefix + text)[0]
        return vector

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""
        return int(self._embed("x").shape[1])

    def _embed(self, text: str) -> np.ndarray:
        found = self.model.encode([text], prompt="", batch_size=1, convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(found)


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
        "float32",
        str(pooling.get("pooling_mode") or "-".join(modes) or "pooled").partition("_")[0],
        dimensions,
        int(tokens or _DEFAULT_TOKENS),
        str(prompts.get("query") or ""),
        str(prompts.get("document") or prompts.get("passage") or ""),
    )


@lru_cache(maxsize=2)
def load_model(setting: str) -> SentenceModel:
    """Loads a model once a process.

    Raises:
        PalimpsestError: the model is missing or not safe to load.
        ComponentFailed: it cannot be loaded.
    """
    folder = model_folder(setting)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(
            str(folder),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
    except (OSError, ValueError, KeyError, RuntimeError) as e:
        reason = first_line_of(e)
        raise ComponentFailed(f"embedder {setting}: cannot be loaded ({reason}); use another model") from None
    parts = model_parts(setting, folder, 0)
    return SentenceModel(model.eval(), parts.query_prefix, parts.text_prefix)


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
