import os
import subprocess
import sys
from pathlib import Path

import pytest

from palimpsest.core.parallel import process_started


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux only")
def test_the_start_of_a_process_is_what_earlier_versions_wrote_from_proc() -> None:
    fields = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()
    assert process_started(os.getpid()) == fields[19]


def test_a_process_that_ended_has_no_start_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_started(child.pid) is None
    finally:
        child.wait()
    assert process_started(child.pid) is None
