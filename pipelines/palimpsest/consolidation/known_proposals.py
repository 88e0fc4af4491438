"""The build that proposals are about, and their states since it was published."""

from collections.abc import Mapping
from dataclasses import replace

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal


def published_build(home: Home) -> Build:
    """Returns the build that readers see.

    Raises:
        PalimpsestError: there is none.
    """
    if (build := published(home)) is None:
        raise PalimpsestError(f"home {home.path}: nothing is published; run palimpsest build --home {home.path}")
    return build


def settled(proposals: Mapping[str, Proposal], build: Build) -> dict[str, Proposal]:
    """Returns proposals, those that were confirmed before the build was made as applied."""
    return {
        i: replace(p, state="applied") if p.state == "confirmed" and p.decided_build < build.build_id else p
        for i, p in proposals.items()
    }
