"""Proposals of the consolidation by kind and state, as the health report shows them."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from palimpsest.store.home import Home
from palimpsest.store.proposals import KINDS, STATES, read_proposals

ProposalCounts: TypeAlias = Mapping[str, Mapping[str, int]]
"""How many proposals there are, by kind and then by state."""


def proposal_counts(home: Home) -> ProposalCounts:
    """Returns the proposals of a home by kind and state."""
    counts = Counter((p.kind, p.state) for p in read_proposals(home.path).values())
    return {kind: {state: counts[kind, state] for state in STATES} for kind in KINDS}
