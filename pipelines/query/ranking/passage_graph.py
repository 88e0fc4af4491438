"""Passages and the names in them as a graph, and personalised PageRank over it: pure numpy, in compressed edges.

The walk is that of HippoRAG (Gutierrez et al., 2024) without a language model: names are found by rules, and titles
count most, for a passage is about what it is titled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palimpsest.query.ranking.scope_graph import Adjacency, ranges
from palimpsest.text.name_keys import find_named_entities

TITLE, OWN_TITLE = 3.0, 9.0  # how much more an edge counts over a title, and between a passage and its own


@dataclass(frozen=True)
class Sentences:
    """The sentences of some memories.

    Attributes:
        rows: local row of each sentence's memory, shape (n,).
        texts: of each.
        entities: local entity numbers named in each.
        vectors: unit vectors, shape (n, 384); None where the build embedded no sentences.
    """

    rows: np.ndarray
    texts: list[str]
    entities: list[np.ndarray]
    vectors: np.ndarray | None


@dataclass(frozen=True)
class PassageGraph:
    """Which memory names which entity, in both directions.

    Attributes:
        rows: local row of each edge, shape (edges,).
        entities: local entity number of each edge.
        to_entity: share of a memory's weight that goes over the edge.
        to_row: share of an entity's weight that goes back.
        names: of the entities.
        df: in how many memories each is named.
        titled: memories by the entity that is their title.
        keys: `name_key`s, ascending; one that stands for several is repeated.
        entity_of_key: what each stands for.
        size: memories.
        linked: which entities have edges.
        places: of each entity's edges.
        first_entity: number in the store of the entity with local number 0.
    """

    rows: np.ndarray
    entities: np.ndarray
    to_entity: np.ndarray
    to_row: np.ndarray
    names: np.ndarray
    df: np.ndarray
    titled: Adjacency
    keys: np.ndarray
    entity_of_key: np.ndarray
    size: int
    linked: np.ndarray
    places: Adjacency
    first_entity: int = 0

    @classmethod
    def build(
        cls,
        size: int,
        mentions: tuple[np.ndarray, np.ndarray],
        titles: tuple[np.ndarray, np.ndarray],
        names: np.ndarray,
        keys: tuple[np.ndarray, np.ndarray],
        first_entity: int = 0,
    ) -> "PassageGraph":
        """Makes the graph of a scope of `size` memories.

        An edge weighs ln(N / df), more over titles. A name in one memory links nothing, one in over 5 % of the scope (5
        memories at least) tells nothing: neither has edges.

        Args:
            size: memories of the scope.
            mentions: local rows and local entity numbers.
            titles: local rows and the entities that are their titles.
            names: of the entities, by local number.
            keys: `name_key`s, ascending, and entities.
            first_entity: see the class.
        """
        count = max(len(names), 1)
        bears = titles[0] * count + titles[1]
        pairs = np.sort(np.concatenate([mentions[0] * count + mentions[1], bears]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # `np.unique` hashes, which takes seventy times as long
        rows, entity = pairs // count, pairs % count
        df = np.bincount(entity, minlength=count)
        kept = (df[entity] >= 2) & (df[entity] <= max(5, 0.05 * size))
        rows, entity = rows[kept], entity[kept]
        own = np.isin(pairs[kept], bears)
        is_title = np.zeros(count, bool)
        is_title[titles[1]] = True
        factor = np.where(own, OWN_TITLE, np.where(is_title[entity], TITLE, 1.0))
        weight = np.log(size / df[entity]) * factor
        linked = np.zeros(count, bool)
        linked[entity] = True
        to_entity, to_row = weight / _sum(rows, weight, size)[rows], weight / _sum(entity, weight, count)[entity]
        return cls(
            rows,
            entity,
            to_entity,
            to_row,
            names,
            df,
            Adjacency.of(titles[1], titles[0], count),
            keys[0],
            keys[1],
            size,
            linked,
            Adjacency.of(entity, np.arange(len(entity)), count),
            first_entity,
        )

    @property
    def nbytes(self) -> int:
        """Bytes held; names count 80 each."""
        held = (self.rows, self.entities, self.to_entity, self.to_row, self.df, self.titled, self.places, self.keys)
        return sum(h.nbytes for h in (*held, *self.linking)) + self.keys.nbytes + 80 * len(self.names)

    def named_in(self, text: str) -> list[int]:
        """Returns the entities that a text names, ascending; several may bear one name."""
        return find_named_entities(text, self._of_key)

    def _of_key(self, key: int) -> list[int]:
        first, beyond = np.searchsorted(self.keys, [key, key + 1])
        found: list[int] = self.entity_of_key[first:beyond].tolist()
        return found

    def walk(
        self, start_rows: np.ndarray, start_entities: np.ndarray, allowed: np.ndarray, steps: int, follow: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns what memories and entities hold after some steps of a walk that keeps returning to its start.

        Args:
            start_rows: where it starts and returns to, shape (memories,).
            start_entities: the same over entities.
            allowed: which memories may be walked over, shape (memories,) bool.
            steps: of the walk.
            follow: how much goes on along edges at each step; the rest returns.
        """
        known, at_edge = self.linking
        at_rows, from_known = start_rows, start_entities[known]
        at_known = from_known
        for _ in range(steps):
            # Only the edges that something goes over, in their order: the same sums as over all, to the last bit.
            held = np.flatnonzero(at_rows)
            out = ranges(np.searchsorted(self.rows, held), np.searchsorted(self.rows, held, "right"))
            back = np.sort(self.places.of_all(known[np.flatnonzero(at_known)]))
            given = np.bincount(at_edge[out], at_rows[self.rows[out]] * self.to_entity[out], len(known))
            brought = np.bincount(self.rows[back], at_known[at_edge[back]] * self.to_row[back], self.size)
            at_rows = follow * (brought * allowed) + (1 - follow) * start_rows
            at_known = follow * given + (1 - follow) * from_known
        at_entities = (1 - follow) * start_entities
        at_entities[known] = at_known
        return at_rows, at_entities

    @cached_property
    def linking(self) -> tuple[np.ndarray, np.ndarray]:
        """The entities that have edges, one in six of all, and of each edge the place of its entity among them."""
        return np.flatnonzero(self.linked), (np.cumsum(self.linked) - 1)[self.entities]

    def edges_of(self, row: int) -> np.ndarray:
        """Returns the edges of a memory: places in `rows` and `entities`."""
        low, high = np.searchsorted(self.rows, [row, row + 1])
        return np.arange(low, high)


def _sum(at: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    return np.maximum(np.bincount(at, weight, size), 1e-12)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Returns exp(scores), summing to 1."""
    out = np.exp(scores - scores.max())
    return out / out.sum()


def spread(values: Sequence[float] | np.ndarray, at: Sequence[int] | np.ndarray, size: int) -> np.ndarray:
    """Returns an array of `size` that holds `values`, scaled to sum to 1, at the places `at`; zeros for nothing."""
    out = np.zeros(size)
    np.add.at(out, np.asarray(at, np.int64), np.asarray(values, float))
    total = out.sum()
    return out / total if total > 0 else out
