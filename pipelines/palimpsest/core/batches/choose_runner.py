"""Where batches are computed: `PALIMPSEST_BATCHES` is local (the default) or ray."""

import os

from palimpsest.core.batches.batch import BatchRunner
from palimpsest.core.errors import PalimpsestError

RUNNERS = ("local", "ray")


def configured_runner() -> BatchRunner | None:
    """Returns what computes batches in other processes; None where this process computes everything itself.

    Raises:
        PalimpsestError: there is no runner of the name that the environment sets.
    """
    name = os.environ.get("PALIMPSEST_BATCHES") or "local"
    if name not in RUNNERS:
        raise PalimpsestError(
            f"PALIMPSEST_BATCHES: {name[:40]!r} must be one of {', '.join(RUNNERS)}; set one or unset it"
        )
    if name == "local":
        return None
    from palimpsest.core.batches.ray_runner import RayRunner

    return RayRunner(os.environ.get("RAY_ADDRESS") or "")
