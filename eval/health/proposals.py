"""Proposals of the consolidation by kind and state, as the health report shows them."""

from collections.abc import Mapping
from typing import TypeAlias

from palimpsest.store.home import Home

KINDS = ("contradiction", "duplicate", "prune", "connection", "confidence", "note")
STATES = ("open", "accepted", "rejected")

ProposalCounts: TypeAlias = Mapping[str, Mapping[str, int]]
"""How many proposals there are, by kind and then by state."""


def proposal_counts(home: Home) -> ProposalCounts:
    """Returns the proposals of a home by kind and state; 0 where nothing proposes yet."""
    return {kind: dict.fromkeys(STATES, 0) for kind in KINDS}
