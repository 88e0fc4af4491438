"""The machine that something was measured on: what a latency means depends on it."""

import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Returns processors, their model, Python's version, and the load average of the last minute."""
    told = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next(
        (line.split(":", 1)[1].strip() for line in told if line.startswith("model name")), platform.processor()
    )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {"cpus": os.cpu_count(), "cpu": model, "python": platform.python_version(), "load_1min": load}
