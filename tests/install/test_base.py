"""The base install is the query path: what it needs is in the base, and everything else is named with its extra."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import distribution, distributions, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from palimpsest.core.errors import DISTRIBUTION, extra_of, missing_in
from tests.query import made

ROOT = Path(__file__).resolve().parents[2]
OWN = {"palimpsest", "palimpsest_eval"}
# Runs the command line with every module refused that the base does not install.
_BASE_ONLY = """
import json, sys
allowed = set(json.loads(sys.argv.pop(1)))
class BaseOnly:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        # A module of the standard library whose name has the platform in it, so that the list lacks it.
        is_platform_config = top.startswith("_sysconfigdata")
        if top in allowed or top in sys.stdlib_module_names or is_platform_config:
            return self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(BaseOnly, sys.meta_path)
from palimpsest.cli.main import main
main()
"""


@cache
def of_module() -> Mapping[str, list[str]]:
    return packages_distributions()


def normal(name: str) -> str:
    return name.lower().replace("_", "-")


def declared(extra: str) -> list[str]:
    """What pyproject.toml states: the installed metadata may be older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]


@cache
def distributions_of(extra: str = "") -> set[str]:
    """Names of what the base, or one extra, installs, with all that those depend on."""
    seen: set[str] = set()
    waiting = [(DISTRIBUTION, extra)]
    while waiting:
        name, wanted = waiting.pop()
        for line in declared(wanted) if name == DISTRIBUTION else requires(name) or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": wanted}):
                key = normal(need.name)
                if key not in seen:
                    seen.add(key)
                    waiting += [(need.name, e) for e in need.extras or ("",)]
    return seen


def base_modules() -> list[str]:
    found = {*OWN}
    for name in distributions_of() | {DISTRIBUTION}:
        found |= {path.parts[0].partition(".")[0] for path in distribution(name).files or ()}
    return sorted(found)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    old, new = "The deadline of Heron is 12 March.", "The deadline of Heron is now 20 April."
    memories = [
        made.memory("m1", old, observed_at=made.at("2026-02-01")),
        made.memory("m2", new, observed_at=made.at("2026-03-01")),
        made.memory("m3", "I prefer tea in the morning."),
    ]
    meta = {"collections": {"notes": {"user_id": "ana", "default": True}}}
    home = made.home(tmp_path_factory.mktemp("base"), made.tables(memories, [("m2", "m1")]), **meta)
    return home


def run(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _BASE_ONLY, json.dumps(base_modules()), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}, timeout=120)


def test_a_query_is_answered_by_the_base_alone_as_by_all_of_it(home):
    command = ("query", "When is the deadline of Heron?", "--collection", "notes", "--user", "ana", "--history")
    done = run(*command, "--home", home, "--explain")
    assert done.returncode == 0, done.stderr
    assert "The deadline of Heron is now 20 April." in done.stdout
    whole = [sys.executable, "-m", "palimpsest.cli.main", *command, "--home", str(home), "--explain"]
    assert done.stdout == subprocess.run(whole, capture_output=True, text=True, timeout=120, check=True).stdout


def test_the_base_shows_and_changes_settings(home, tmp_path, monkeypatch):
    monkeypatch.delenv("PALIMPSEST_CONFIG")
    monkeypatch.delenv("PALIMPSEST_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = run("config", "set", "home", home)
    assert done.returncode == 0, done.stderr
    assert ["home", str(home), "user"] in [
        line.split() for line in run("config", "show", "--changed").stdout.splitlines()
    ]
    assert run("query", "Heron", "--collection", "notes", "--user", "ana").returncode == 0


def test_doctor_finds_nothing_wrong_with_a_base_install(home):
    done = run("doctor", "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok   embedding model: answers with a unit vector" in done.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("build",), "build"),
        (("verify",), "build"),
        (("dev",), "build"),
        (("query", "x", "--backend", "neo4j"), "neo4j"),
        (("neo4j", "start"), "neo4j"),
    ],
)
def test_a_command_whose_extra_is_missing_names_it_and_ends_with_2(home, command, extra):
    done = run(*command, "--home", home)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"palimpsest: {command[0]} needs the extra {extra} (")
    assert line.endswith(f"pip install '{DISTRIBUTION}[{extra}]'")


def imported_modules() -> set[str]:
    found: set[str] = set()
    for folder in ("pipelines", "eval"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent.name == "adapters":  # each runs in an environment of its own, with its own lock
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {a.name.partition(".")[0] for a in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - OWN


# Measured against, never needed: comparisons that their own modules say are optional. llama_cpp may need a compiler to
# install, so it is no part of `dev`.
OPTIONAL = {"neo4j_graphrag", "langchain_text_splitters", "faiss", "usearch", "numkong", "llama_cpp"}


def test_every_module_that_the_code_imports_is_in_the_base_or_in_a_known_extra():
    unknown = {m for m in imported_modules() - set(base_modules()) - OPTIONAL if extra_of(m) is None}
    assert not unknown


def test_each_extra_installs_the_modules_documented_for_it():
    for module in imported_modules() - set(base_modules()) - OPTIONAL:
        extra = extra_of(module)
        assert extra, module
        installed = distributions_of(extra)
        assert any(normal(n) in installed for n in of_module()[module]), (module, extra)


def test_a_stage_with_a_missing_extra_is_recognized_by_the_message_of_its_error():
    error = missing_in("No module named 'dspy.clients'", "build")
    assert str(error).startswith("build needs the extra lm (dspy.clients is not installed): ")
    assert missing_in("No module named 'palimpsest.nowhere'", "build") is None


def test_every_pinned_version_runs_on_the_oldest_python_of_the_project():
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    version = re.search(r">=([\d.]+)", oldest)[1]
    refused = [
        f"{d.name}=={d.version} needs Python {d.metadata.get('Requires-Python')}"
        for d in distributions()
        if not SpecifierSet(d.metadata.get("Requires-Python") or "").contains(version)
    ]
    assert not refused
