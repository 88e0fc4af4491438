"""The command line, as a process and without one: a process that builds takes six seconds to import its libraries."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest.mock import patch

from palimpsest.cli.main import main
from palimpsest.pipeline.finish import finish_staged, publish_build, refusal
from palimpsest.pipeline.plan import Plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import STAGES
from palimpsest.store.builds import staged
from palimpsest.store.home import Home

CLI = Path(sys.executable).with_name("palimpsest")


def process(*args: object, cwd: Path | None = None, **env: str) -> CompletedProcess[str]:
    """Runs a command as others do, in a process of its own."""
    done = subprocess.run(
        [CLI, *map(str, args)], capture_output=True, text=True, cwd=cwd, env=os.environ | env, timeout=300
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def last_json(done: CompletedProcess[str]) -> dict[str, Any]:
    """Returns what a command with --json said."""
    return json.loads(done.stdout.strip().splitlines()[-1])


def run(*args: object, cwd: Path | None = None, **env: str) -> CompletedProcess[str]:
    """Runs a command in this process; working directory, arguments and environment are put back afterwards.

    A build runs its stages in plain calls: a run of Dagster takes three seconds more, and `process` has one.
    """
    out, err = _Text(), _Text()
    argv = ["palimpsest", *map(str, args)]
    with (
        patch("sys.argv", argv),
        patch.dict(os.environ, env),
        _in_folder(cwd),
        patch("palimpsest.orchestration.run._run_graph", _run_stages),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = _exit_code()
    assert "Traceback" not in err.text, err.text
    return CompletedProcess(argv, code, out.text, err.text)


def _run_stages(home: Home, plan: Plan, max_cost: float | None, allow_removals: bool) -> None:
    from palimpsest_eval.runs.judge_build import judge_staged

    for name in plan.changed:
        for stage in STAGES:
            run_stage(stage_context(home, name, plan.collections[name], max_cost, allow_removals), stage)
    finish_staged(home)
    judge_staged(home)
    if not refusal(staged(home).manifest):
        publish_build(home)


class _Text(io.TextIOWrapper):
    """A stream that keeps what is written; click writes to the buffer below it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _exit_code() -> int:
    try:
        main()
    except SystemExit as e:
        return int(e.code or 0)
    return 0


@contextmanager
def _in_folder(folder: Path | None) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder or before)
    try:
        yield
    finally:
        os.chdir(before)


def terminal(args: list[str], answers: str, cwd: Path, code: int = 0) -> str:
    """Runs a command at a terminal of its own, which ends with a code, and returns what it shows."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execv(CLI, [str(CLI), *args])
    os.write(master, answers.encode())
    shown = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, shown
    return shown.decode()
