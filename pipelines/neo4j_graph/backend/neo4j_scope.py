"""A scope in Neo4j as dense arrays: implements `palimpsest.query.ranking.view.ScopeView` over packed parts."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.arrays import unpack_arrays
from palimpsest.neo4j_graph.packed import ScopeStats, bucket_of
from palimpsest.query.ranking.named import Named
from palimpsest.query.ranking.passage_graph import PassageGraph, Sentences
from palimpsest.query.ranking.places import Places
from palimpsest.query.ranking.priors import Standing
from palimpsest.query.ranking.scope_cache import Flags, Postings, Topics
from palimpsest.query.ranking.scope_graph import Adjacency
from palimpsest.query.ranking.turns import TurnOrder
from palimpsest.query.ranking.view import HeldParts
from palimpsest.query.request.types import Filters
from palimpsest.query.request.withheld import Withheld
from palimpsest.text.memory_periods import MemoryPeriods


class Parts(Protocol):
    """Reads packed parts of the scope by name; those that are not there are left out."""

    def __call__(self, names: Iterable[str], keep: bool = False) -> dict[str, bytes]:
        """Returns them; `keep` holds them as they are, for the next one who asks."""


class Neo4jScope(HeldParts):
    """See ScopeView.

    Args:
        stats: of the scope.
        rows: gives the local rows of candidates, ascending.
        cosines: gives the cosine of every memory.
        postings: gives the postings of terms by term.
        parts: reads packed parts.
        held: holds what is made under a name.
        texts: gives the texts of memories by id.
        withheld: gives what the scope does not serve unless asked.
    """

    def __init__(
        self,
        stats: ScopeStats,
        rows: Callable[[Filters], np.ndarray],
        cosines: Callable[[np.ndarray], np.ndarray],
        postings: Callable[[Sequence[str]], dict[str, Postings]],
        parts: Parts,
        held: Callable[[Hashable, Callable[[], Any]], Any],
        texts: Callable[[list[str]], dict[str, str]],
        withheld: Callable[[], Withheld],
    ):
        self._stats, self._rows, self._cosines, self._postings = stats, rows, cosines, postings
        self._parts, self._hold, self._texts, self._withheld = parts, held, texts, withheld

    @property
    def ids(self) -> np.ndarray:
        """See ScopeView."""
        return self._stats.ids

    def allowed(self, filters: Filters) -> np.ndarray:
        """See ScopeView."""

        def load() -> Flags:
            allowed = np.zeros(len(self.ids), bool)
            allowed[self._rows(filters)] = True
            return Flags(allowed)

        filters = self._withheld().narrowed(filters)
        flags: Flags = self._hold(("allowed", filters), load)
        return flags.values

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        return self._cosines(vector)

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """See ScopeView."""
        return [postings for _, postings in sorted(self._postings(terms).items())]

    def passages(self) -> PassageGraph | None:
        """See ScopeView."""
        return self._named().graph

    def sentences(self, rows: np.ndarray) -> Sentences:
        """See ScopeView."""
        named = self._named()
        wanted = {str(self.ids[r]): int(r) for r in rows}
        names = sorted({f"sentences:{bucket_of(i, named.blocks)}" for i in wanted})
        found: dict[int, tuple[np.ndarray, list[np.ndarray], np.ndarray]] = {}
        for data in self._parts(names, keep=True).values():
            found |= _of_block(unpack_arrays(data), wanted, named.entity_of)
        if not found:
            return Sentences(np.zeros(0, np.int64), [], [], None)
        order = sorted(found)
        of = np.concatenate([np.full(len(found[r][0]), r, np.int64) for r in order])
        entities = [e for r in order for e in found[r][1]]
        vectors = np.concatenate([found[r][2] for r in order])
        if len(vectors) == len(of):
            return Sentences(of, [], entities, vectors.astype(np.float32))
        told = self._texts([str(self.ids[r]) for r in order])
        texts = [told[str(self.ids[r])][a:b] for r in order for a, b in found[r][0].tolist()]
        return Sentences(of, texts, entities, None)

    def _held(self, name: str, load: Callable[[], Any]) -> Any:
        return self._hold(name, load)

    def _load_order(self) -> TurnOrder:
        nothing = np.zeros(0, np.int64)
        none = {"row": nothing, "next_row": nothing, "tokens": np.zeros(len(self.ids), np.int64)}
        a = self._arrays("order") or none
        return TurnOrder.of(a["row"].astype(np.int64), a["next_row"].astype(np.int64), a["tokens"])

    def _load_places(self) -> Places:
        found = [a for part in ("order", "written") if (a := self._arrays(part))]
        nothing = np.zeros(0, np.int64)
        rows, following = (np.concatenate([nothing, *(a[n] for a in found)]) for n in ("row", "next_row"))
        return Places.of(rows, following, len(self.ids))

    def _load_periods(self) -> MemoryPeriods:
        if a := self._arrays("periods"):
            return MemoryPeriods(a["row"].astype(np.int64), a["begins"], a["ends"])
        return MemoryPeriods(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    def _load_topics(self) -> Topics:
        nothing = np.zeros(0, np.int64)
        if a := self._arrays("topics"):
            rows, topics = a["row"].astype(np.int64), a["topic"].astype(np.int64)
            labels, parents = np.array(a["labels"], dtype=object), _told(a, "parent").astype(np.int64)
            return Topics(rows, topics, a["relevance"], labels, parents)
        return Topics(nothing, nothing, np.zeros(0), np.array([], dtype=object), nothing)

    def _load_named(self) -> Named:
        nothing = np.zeros(0, np.int64)
        if not (a := self._arrays("named")):
            return Named.of(np.array([], dtype=object), np.zeros(0), Adjacency.of(nothing, nothing, 0))
        rows = Adjacency.of(a["entity"].astype(np.int64), a["row"].astype(np.int64), len(a["names"]))
        return Named.of(np.array(a["names"], dtype=object), a["weight"], rows)

    def _load_standing(self) -> Standing:
        if a := self._arrays("standing"):
            return Standing(a["observed"], a["importance"], a["support"].astype(np.int64))
        size = len(self.ids)
        return Standing(np.full(size, np.nan), np.full(size, np.nan), np.zeros(size, np.int64))

    def _named(self) -> "_Named":
        held: _Named = self._held("passages", self._load_passages)
        return held

    def _load_passages(self) -> "_Named":
        if not (a := self._arrays("passages")):
            return _Named(None, {}, 1)
        wide = {name: value.astype(np.int64) for name, value in a.items() if name not in ("names", "key", "hashes")}
        graph = PassageGraph.build(
            len(self.ids),
            (wide["mention_row"], wide["mention_entity"]),
            (wide["title_row"], wide["title_entity"]),
            np.array(a["names"], dtype=object),
            (a["key"], wide["key_entity"]),
        )
        return _Named(graph, {h: i for i, h in enumerate(a["hashes"].tolist())}, int(_told(a, "blocks")[0]))

    def _arrays(self, part: str) -> dict[str, Any]:
        found = self._parts([part])
        return unpack_arrays(found[part]) if part in found else {}


def _told(arrays: dict[str, Any], name: str) -> np.ndarray:
    if name not in arrays:
        raise PalimpsestError("neo4j: the build there was loaded by an earlier version; run palimpsest build --graph")
    return np.asarray(arrays[name])


class _Named:
    """The graph, local numbers of entities by the hash of their ids, and in how many blocks the sentences lie."""

    def __init__(self, graph: PassageGraph | None, entity_of: dict[int, int], blocks: int):
        self.graph, self.entity_of, self.blocks = graph, entity_of, blocks

    @property
    def nbytes(self) -> int:
        return (self.graph.nbytes if self.graph else 0) + 100 * len(self.entity_of)


def _of_block(
    block: dict[str, Any], wanted: dict[str, int], entity_of: dict[int, int]
) -> dict[int, tuple[np.ndarray, list[np.ndarray], np.ndarray]]:
    """Returns spans, entities of each sentence, and vectors, by local row."""
    out = {}
    ends = np.cumsum(block["sizes"])
    named = np.concatenate([[0], np.cumsum(block["counts"])])
    spans = block["spans"].reshape(-1, 2)
    for i, memory_id in enumerate(block["ids"]):
        if memory_id in wanted:
            a, b = int(ends[i] - block["sizes"][i]), int(ends[i])
            hashes = [block["entities"][named[k] : named[k + 1]].tolist() for k in range(a, b)]
            entities = [np.array([entity_of[h] for h in of], np.int64) for of in hashes]
            out[wanted[memory_id]] = (spans[a:b], [np.sort(e) for e in entities], block["vectors"][a:b])
    return out
