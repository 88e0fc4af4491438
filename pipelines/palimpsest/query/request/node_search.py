"""How the strategy `hierarchical` uses the nodes of a scope."""

from collections.abc import Mapping
from dataclasses import dataclass

from palimpsest.core.errors import ArgumentError
from palimpsest.query.request.arguments import clean_texts
from palimpsest.query.request.parse_where import parse_where
from palimpsest.query.request.where import Where

MAX_DEPTH = 2
NODE_OPTIONS = ("narrow", "node_types", "node_where", "depth")
_STRATEGY = "hierarchical"


@dataclass(frozen=True)
class NodeSearch:
    """What a search of nodes finds, and what becomes of the rest.

    Attributes:
        narrow: only memories of the nodes found are results; otherwise these are lifted.
        types: of the nodes to start from; empty means all.
        where: what the fields and the metadata of these nodes must satisfy; None means all.
        depth: edges that are followed from the nodes found, 0 to `MAX_DEPTH`.
    """

    narrow: bool = False
    types: tuple[str, ...] = ()
    where: Where | None = None
    depth: int = 1


def parse_node_search(options: Mapping[str, object], strategy: object) -> NodeSearch:
    """Returns what `NODE_OPTIONS` say.

    Raises:
        ArgumentError: one is out of range or not understood, or given with another strategy than hierarchical.
    """
    where = options.get("node_where")
    if where is not None and not isinstance(where, str):
        raise ArgumentError("node_where", "must be a text")
    given = NodeSearch(
        narrow=bool(options.get("narrow", False)),
        types=clean_texts("node_types", options.get("node_types", ())),  # type: ignore[arg-type]
        where=parse_where(where, "node_where") if where is not None else None,
        depth=options.get("depth", 1),  # type: ignore[arg-type]
    )
    if not isinstance(given.depth, int) or not 0 <= given.depth <= MAX_DEPTH:
        raise ArgumentError("depth", f"must be 0 to {MAX_DEPTH}", given.depth)
    if given != NodeSearch() and isinstance(strategy, str) and strategy != _STRATEGY:
        raise ArgumentError("strategy", f"must be {_STRATEGY} with narrow, node_types, node_where or depth", strategy)
    return given
