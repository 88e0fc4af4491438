"""What surrounds a memory in a build: entities it names, topics it is in, relations, and the memories behind them."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from palimpsest.query.request.one_line import shorten_text

_MAX_LABEL_CHARS = 80


@dataclass(frozen=True)
class Node:
    """A memory, entity or topic; `ring` is how many links away from the center it is."""

    node_id: str
    kind: str
    label: str
    ring: int


@dataclass(frozen=True)
class Neighbourhood:
    """Nodes by ring and id, and links (from, to, label) between them."""

    centre: str
    nodes: tuple[Node, ...]
    links: tuple[tuple[str, str, str], ...]


def neighbourhood(tables: Mapping[str, pl.DataFrame], memory_id: str | None = None, limit: int = 40) -> Neighbourhood:
    """Returns a memory with what it is linked to directly, and the memories that share its entities or relations.

    Args:
        tables: memories, relations, mentions, entities, topics and topic_memories of the build.
        memory_id: the centre; None means the memory with the most relations and entities.
        limit: nodes at most, the nearest by ring and id.
    """
    links = _links(tables)
    if memory_id is None:
        memory_id = _busiest(tables, links)
    texts = {
        "memory": dict(tables["memories"].select("memory_id", "text").iter_rows()),
        "entity": dict(tables["entities"].select("entity_id", "name").iter_rows()),
        "topic": dict(tables["topics"].select("topic_id", "label").iter_rows()),
    }
    neighbors: dict[str, set[str]] = {}
    for source, target, _ in links:
        neighbors.setdefault(source, set()).add(target)
        neighbors.setdefault(target, set()).add(source)
    topics = set(texts["topic"])
    rings, edge = {memory_id: 0}, [memory_id]
    for ring in (1, 2):
        # A topic has hundreds of memories: it is shown, and its links are not followed.
        edge = sorted({n for e in edge if e not in topics for n in neighbors.get(e, ())} - rings.keys())
        rings |= dict.fromkeys(edge, ring)
    chosen = dict(sorted(rings.items(), key=lambda item: (item[1], item[0]))[:limit])
    nodes = tuple(_node(i, ring, texts) for i, ring in chosen.items())
    return Neighbourhood(memory_id, nodes, tuple(x for x in links if x[0] in chosen and x[1] in chosen))


def _links(tables: Mapping[str, pl.DataFrame]) -> list[tuple[str, str, str]]:
    relations = tables["relations"].filter(pl.col("label") != "NONE").select("newer_id", "older_id", "label")
    mentions = tables["mentions"].select("memory_id", "entity_id", pl.lit("MENTIONS")).unique()
    about = tables["topic_memories"].select("memory_id", "topic_id", pl.lit("ABOUT")).unique()
    return sorted(tuple(row) for t in (relations, mentions, about) for row in t.iter_rows())


def _busiest(tables: Mapping[str, pl.DataFrame], links: list[tuple[str, str, str]]) -> str:
    counts = dict.fromkeys(sorted(tables["memories"]["memory_id"]), 0)
    for source, target, label in links:
        for end in (source, target):
            if end in counts:
                counts[end] += 1 if label in ("MENTIONS", "ABOUT") else 5
    return str(max(counts, key=lambda i: (counts[i], i)))


def _node(node_id: str, ring: int, texts: Mapping[str, Mapping[str, str]]) -> Node:
    kind = next(k for k, known in texts.items() if node_id in known)
    return Node(node_id, kind, shorten_text(texts[kind][node_id], _MAX_LABEL_CHARS), ring)
