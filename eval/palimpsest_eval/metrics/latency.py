"""Latencies, and the machine that they were measured on: what a latency means depends on it."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class LatencyMs:
    """Percentiles of a latency in milliseconds."""

    p50: float
    p95: float
    p99: float

    def to_json(self) -> Mapping[str, float]:
        """Returns the percentiles by name, rounded to microseconds."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Machine:
    """Processors, their model, the version of Python, and the load average of the last minute."""

    cpus: int | None
    cpu: str
    python: str
    load_1min: float

    def to_json(self) -> Mapping[str, int | float | str | None]:
        """Returns the machine as JSON values."""
        return asdict(self)


def this_machine() -> Machine:
    """Returns the machine of this process; NaN is the load where the system has no load average."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return Machine(os.cpu_count(), next(models, platform.processor()), platform.python_version(), load)
