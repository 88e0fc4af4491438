"""Which folder may import which: the contracts of pyproject.toml, as `make lint` checks them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_folder_imports_only_the_folders_below_it(tmp_path):
    # import-linter reads folders: `eval` is next to the package in a checkout, and is a part of it.
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pipelines", tmp_path / "palimpsest", ignore=skip)
    shutil.copytree(ROOT / "eval", tmp_path / "palimpsest/eval", ignore=skip)
    command = [Path(sys.executable).with_name("lint-imports"), "--config", ROOT / "pyproject.toml", "--no-cache"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
