"""What a process may do while it imports the project."""

import subprocess
import sys

SCRIPT = """
import os, polars, tests.chaos.child, palimpsest_eval.runs.judge_build
print({open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")})
"""


def test_no_import_computes_with_polars() -> None:
    """Its threads, `polars-0` and `tokio-rt-worker`, start with the first result; a forked process has none of them."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120)
    assert "python" in done.stdout and "polars-0" not in done.stdout and "tokio" not in done.stdout
