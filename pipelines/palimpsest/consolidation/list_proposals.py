"""Proposals in the order in which a person should look at them, with the texts of their memories."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import polars as pl

from palimpsest.consolidation.known_proposals import published_build
from palimpsest.store.home import Home
from palimpsest.store.proposals import Kind, Proposal

_WORTH: tuple[Kind, ...] = ("contradiction", "duplicate", "connection", "note", "prune", "confidence")


def by_worth(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Returns proposals by what a decision is worth: wrong answers before repetitions, small corrections last.

    The surest of each kind comes first; those about the same memories are adjacent.
    """
    return sorted(proposals, key=lambda p: (_WORTH.index(p.kind), -p.confidence, sorted(p.memory_ids), p.proposal_id))


def kinds_text(proposals: Iterable[Proposal]) -> str:
    """Returns how many proposals there are of each kind, such as `3 contradiction, 1 duplicate`."""
    found = Counter(p.kind for p in proposals)
    return ", ".join(f"{found[kind]:,} {kind}" for kind in _WORTH if found[kind])


def proposal_texts(home: Home, proposals: Sequence[Proposal]) -> dict[str, str]:
    """Returns the texts of the memories that proposals rest on, by id, as the published build has them."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for proposal in proposals:
        wanted[proposal.scope[0]].update(proposal.memory_ids)
    build = published_build(home)
    texts: dict[str, str] = {}
    for collection, ids in sorted(wanted.items()):
        found = build.table(collection, "memories").filter(pl.col("memory_id").is_in(sorted(ids)))
        texts |= dict(found.select("memory_id", "text").iter_rows())
    return texts
