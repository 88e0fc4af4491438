"""A built wheel in fresh environments, in a folder that is no checkout: it builds, judges, answers and opens the UI."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.eval.judged import QUESTIONS, write_lines
from tests.small_corpus import write_chats

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
_BASE_MIB = 300
_WAIT_S = 180


def run(*command: object, cwd: Path, ok: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    """Runs a command without this project's environment variables."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PALIMPSEST", "PYTHON", "DAGSTER"))}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode in ok, f"{command}: {done.returncode}: {done.stderr[-2000:]}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--out-dir", folder, ROOT, cwd=folder)  # the source distribution, and the wheel from that
    (made,) = folder.glob("*.whl")
    return made


def install(wheel: Path, folder: Path, extra: str = "") -> Path:
    """Returns the folder of programs of a fresh environment."""
    links = [a for p in os.environ.get("PIP_FIND_LINKS", "").split() for a in ("--find-links", p)]
    python = folder / "bin/python"
    run(UV, "venv", "--python", sys.executable, folder, cwd=folder.parent)
    run(
        UV,
        "pip",
        "install",
        "--python",
        python,
        "-c",
        ROOT / "constraints.txt",
        *links,
        f"{wheel}{extra}",
        cwd=folder.parent,
    )
    return folder / "bin"


@pytest.fixture(scope="module")
def project(wheel, tmp_path_factory) -> tuple[Path, Path]:
    """The programs of the extra build, and a folder with sources and questions whose baseline was accepted."""
    base = tmp_path_factory.mktemp("elsewhere")
    programs = install(wheel, base / "venv", "[build]")
    write_chats(base / "data/corpora")
    write_lines(base / "data/golden/chats.jsonl", QUESTIONS)
    first = run(programs / "palimpsest", "build", cwd=base, ok=(1,))
    assert "no baseline" in first.stderr
    run(programs / "palimpsest", "baseline", "accept", "--why", "the first run", cwd=base)
    return base, programs


def test_it_builds_and_passes_the_gate(project):
    base, programs = project
    done = run(programs / "palimpsest", "build", cwd=base)
    assert "gate       passed" in done.stderr + done.stdout
    assert (base / "data/baselines/chats.json").is_file() and (base / "data/home/published.json").is_file()


def test_the_base_alone_answers_on_a_home_built_elsewhere_and_is_small(project, wheel, tmp_path):
    base, programs = project
    run(programs / "palimpsest", "build", cwd=base)
    alone = install(wheel, tmp_path / "venv")
    size = sum(p.lstat().st_size for p in (tmp_path / "venv").rglob("*") if p.is_file())
    assert size / 2**20 < _BASE_MIB
    question = ("query", "When is the deadline of project Heron?", "--home", base / "data/home")
    assert "now 20 April" in run(alone / "palimpsest", *question, cwd=tmp_path).stdout.splitlines()[0]
    refused = run(alone / "palimpsest", "build", cwd=tmp_path, ok=(2,))
    assert "build needs the extra build" in refused.stderr


def test_an_empty_folder_gets_the_demo_and_the_package_stays_as_it_was(project, tmp_path):
    _, programs = project
    before = sorted(programs.parent.rglob("*/palimpsest/data/**/*"))
    planned = run(programs / "palimpsest", "build", "--dry-run", cwd=tmp_path)
    assert "atlas" in planned.stdout and not (tmp_path / "data/corpora").exists()
    # Only the copy is of interest: building the demo takes minutes.
    code = (
        "from palimpsest.cli.build import copy_demo; from palimpsest.store.home import *; copy_demo(Home(DEFAULT_HOME))"
    )
    done = run(programs / "python", "-c", code, cwd=tmp_path)
    assert "copied the demo corpus" in done.stderr
    for part in ("corpora", "golden", "baselines"):
        shipped = {p.relative_to(ROOT) for p in (ROOT / "data" / part).rglob("*") if p.is_file()}
        copied = {p.relative_to(tmp_path) for p in (tmp_path / "data" / part).rglob("*") if p.is_file()}
        assert copied == shipped
    assert sorted(programs.parent.rglob("*/palimpsest/data/**/*")) == before


def test_the_ui_opens_there(project):
    base, programs = project
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PALIMPSEST", "PYTHON", "DAGSTER"))}
    env["PALIMPSEST_AUTOMATION"] = "off"
    with (base / "dev.log").open("w") as log:
        server = subprocess.Popen(
            [programs / "palimpsest", "dev", "--port", str(port)], cwd=base, env=env, stdout=log, stderr=log
        )
    try:
        assert _status(f"http://127.0.0.1:{port}/") == 200, (base / "dev.log").read_text()[-3000:]
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def _status(url: str) -> int | None:
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status
        except OSError:
            time.sleep(1)
    return None
