"""The example for users' CI: its commands are run as a runner would, on a change that is sound and one that is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import command
from tests.eval.judged import QUESTIONS, write_lines
from tests.small_corpus import TURNS, write_chats

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "data/ci-example.yml"
GYM = ("s8", "bob", "Bob", "The gym opens at six.", "2026-03-02T09:00:00Z")


def steps() -> dict[str, str]:
    (job,) = yaml.safe_load(EXAMPLE.read_text())["jobs"].values()
    return {s["name"]: s["run"] for s in job["steps"] if "name" in s}


def test_the_guide_shows_the_example() -> None:
    assert EXAMPLE.read_text().split("\n", 1)[1].strip() in (ROOT / "docs/guides/ci.md").read_text()


def run(step: str, project: Path) -> subprocess.CompletedProcess[str]:
    """Runs a step in the shell that GitHub uses for it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "GITHUB_STEP_SUMMARY": str(project / "summary.md")} | {"GITHUB_ACTIONS": "true"}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory, embed_corpus) -> Path:
    """A repository whose baseline was accepted."""
    base = tmp_path_factory.mktemp("ci")
    embed_corpus(base / ".palimpsest", write_chats(base / "corpora", [*TURNS, GYM]))
    write_chats(base / "corpora")
    write_lines(base / "data/golden/chats.jsonl", QUESTIONS)
    built = command.run("build", "--corpus", "corpora", "--home", ".palimpsest", cwd=base)
    assert built.returncode == 1 and "no baseline" in built.stderr, built.stderr
    accepted = command.run("baseline", "accept", "--home", ".palimpsest", "--why", "the first run", cwd=base)
    assert accepted.returncode == 0, accepted.stderr
    return base


def test_a_sound_change_passes_and_leaves_verdict_and_report(project):
    assert list(steps()) == ["build", "gate"]
    write_chats(project / "corpora", [*TURNS, GYM])
    assert run(steps()["build"], project).returncode == 0
    gate = run(steps()["gate"], project)
    assert gate.returncode == 0, gate.stderr
    assert "Gate passed: chats" in (project / "summary.md").read_text()
    assert "<h2>chats" in (project / "report.html").read_text()


def test_a_change_that_loses_an_answer_fails_the_job_and_names_the_question(project):
    write_chats(project / "corpora", [t for t in TURNS if "locker" not in t[3]])
    assert command.run("build", "--corpus", "corpora", "--home", ".palimpsest", cwd=project).returncode == 1
    gate = run(steps()["gate"], project)
    assert gate.returncode == 1 and "Traceback" not in gate.stderr
    closed = gate.stderr[gate.stderr.index("palimpsest: gate failed: 1 collection, 1 failed\n  chats: ") :]
    assert "q-locker" in closed and len(closed.encode()) <= 2048
    assert "::error title=Gate failed%3A chats::" in gate.stdout and gate.stdout.rstrip().endswith("report.html")
    summary = (project / "summary.md").read_text()
    assert "Gate failed: chats" in summary and "q-locker" in summary
