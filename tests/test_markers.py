import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_table_of_markers_says_what_the_default_run_leaves_out():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    declared = {line.split(":")[0] for line in options["markers"]}
    left_out = set(re.findall(r"not (\w+)", options["addopts"]))
    table = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", (ROOT / "tests/README.md").read_text(), re.M))
    assert table == {name: "no" if name in left_out else "yes" for name in declared}
