"""The links between memories of one scope: relations, and which memory replaced which; weights of shared entities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palimpsest.index.index_format import DISPUTE
from palimpsest.query.scope.scope_arrays import Arrays, ranges
from palimpsest.text.terms import SentenceTerms, find_named_entities, join_sentences

RELATION_LABELS = ("DERIVE", "EXTEND", "UPDATE", DISPUTE)
"""Labels of relations, ascending: arrays contain their numbers."""

PREMISE = "PREMISE"
"""The kind of a link from a conclusion to what it follows from: a DERIVE, read from the newer end."""

MAX_DF = 50  # an entity in more memories than this is too common to link two of them


def idf_weight(df: np.ndarray, memories: int) -> np.ndarray:
    """Returns the weights of entities as links, ln(N/df) / ln(N) in 0..1.

    0 for one in a single memory, and for one in over 5 % of the scope (5 memories at least, 50 at most).

    Args:
        df: in how many memories each entity is named, shape (entities,).
        memories: of the scope, N.
    """
    if memories < 2:
        return np.zeros(len(df))
    weight = np.log(memories / np.maximum(df, 1)) / np.log(memories)
    return np.where((df >= 2) & (df <= min(MAX_DF, max(5, 0.05 * memories))), np.clip(weight, 0, 1), 0.0)


@dataclass(frozen=True)
class Adjacency:
    """Values by key in compressed rows: those of key k are `values[starts[k]:starts[k + 1]]`."""

    starts: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray, size: int) -> "Adjacency":
        """Groups values by key, in the order (key, value); both are whole numbers, 0 or more."""
        wide = int(values.max(initial=0)) + 1
        pairs = np.sort(keys.astype(np.int64) * wide + values)  # one number a pair: a fifth of what `lexsort` takes
        return cls(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))]), pairs % wide)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.starts.nbytes + self.values.nbytes

    def __getitem__(self, key: int) -> np.ndarray:
        values: np.ndarray = self.values[self.starts[key] : self.starts[key + 1]]
        return values

    def of_all(self, keys: np.ndarray) -> np.ndarray:
        """Returns the values of several keys, one key after the other."""
        values: np.ndarray = self.values[ranges(self.starts[keys], self.starts[keys + 1])]
        return values


@dataclass(frozen=True)
class ScopeLinks:
    """Relations and replacements by local row.

    Attributes:
        newer: newer end of each relation.
        older: older end of each relation.
        label: of each relation, a number in `RELATION_LABELS`.
        confidence: of each relation.
        from_newer: relations by their newer end.
        from_older: relations by their older end.
        replaced: rows of the memories that each memory replaced directly, for whatever reason.
    """

    newer: np.ndarray
    older: np.ndarray
    label: np.ndarray
    confidence: np.ndarray
    from_newer: Adjacency
    from_older: Adjacency
    replaced: Adjacency

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "ScopeLinks":
        """Makes it of the part `links` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        newer, older, by, was = (
            arrays.get(n, nothing).astype(np.int64) for n in ("newer", "older", "replaced_by", "replaced")
        )
        number = np.arange(len(newer))
        return cls(
            newer=newer,
            older=older,
            label=arrays.get("label", nothing),
            confidence=arrays.get("confidence", np.zeros(0)).astype(np.float64),
            from_newer=Adjacency.of(newer, number, size),
            from_older=Adjacency.of(older, number, size),
            replaced=Adjacency.of(by, was, size),
        )

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        relations = (self.newer, self.older, self.label, self.confidence, self.from_newer, self.from_older)
        return sum(a.nbytes for a in (*relations, self.replaced))

    def related(self, row: int) -> list[tuple[int, float, str]]:
        """Returns (row, confidence, label): EXTEND in both directions, UPDATE and DISPUTE to the newer memory only.

        DERIVE leads to what follows from the memory, `PREMISE` to what it follows from.
        """
        older = [(int(self.older[i]), i, RELATION_LABELS[self.label[i]]) for i in self.from_newer[row]]
        found = [
            (r, i, PREMISE if label == "DERIVE" else label) for r, i, label in older if label not in ("UPDATE", DISPUTE)
        ]
        found += [(int(self.newer[i]), i, RELATION_LABELS[self.label[i]]) for i in self.from_older[row]]
        return [(other, float(self.confidence[i]), label) for other, i, label in found]

    @cached_property
    def disputes(self) -> dict[int, list[tuple[int, float]]]:
        """For the row of each disputed memory (row, likelihood) of what disputes it, likeliest first."""
        found: dict[int, list[tuple[int, float]]] = {}
        for i in np.flatnonzero(self.label == RELATION_LABELS.index(DISPUTE)).tolist():
            found.setdefault(int(self.older[i]), []).append((int(self.newer[i]), float(self.confidence[i])))
        return {row: sorted(by, key=lambda pair: (-pair[1], pair[0])) for row, by in found.items()}

    def chain(self, row: int) -> list[int]:
        """Returns every row that this one replaced, directly or through another, ascending."""
        found: set[int] = set()
        waiting: list[int] = self.replaced[row].tolist()
        while waiting:
            older = waiting.pop()
            if older not in found and older != row:
                found.add(older)
                waiting += self.replaced[older].tolist()
        return sorted(found)


# Passages and the names in them as a graph, and personalized PageRank over it: pure numpy, in compressed edges.
#
# The walk follows HippoRAG (Gutierrez et al., 2024) without a language model: names are found by rules, and titles
# weigh most, for a passage is about its title.

TITLE, OWN_TITLE = 3.0, 9.0  # factor of an edge over a title, and of one between a passage and its own title


@dataclass(frozen=True)
class Sentences:
    """The sentences of some memories.

    Attributes:
        rows: local row of each sentence's memory, shape (n,).
        counts: how many entities each names, shape (n,).
        entities: local numbers of these, the sentences one after the other, shape (sum of counts,).
        vectors: unit vectors, shape (n, 384); None where the build embedded no sentences.
        words: the words of each, where they have no vectors.
    """

    rows: np.ndarray
    counts: np.ndarray
    entities: np.ndarray
    vectors: np.ndarray | None
    words: SentenceTerms


@dataclass(frozen=True)
class PassageGraph:
    """Which memory names which entity, in both directions.

    Attributes:
        rows: local row of each edge, shape (edges,).
        entities: local entity number of each edge.
        to_entity: share of a memory's weight over the edge.
        to_row: share of an entity's weight that returns to the row.
        names: of the entities.
        df: in how many memories each is named.
        titled: memories by the entity that is their title.
        keys: `name_key`s, ascending; one of several entities is repeated.
        entity_of_key: the entity of each.
        size: memories.
        linked: which entities have edges.
        edges_by_entity: edge numbers of each entity.
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
    edges_by_entity: Adjacency
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

        An edge weighs ln(N / df), more over titles. A name in one memory has no edges, nor has one in over 5 % of the
        scope (5 memories at least).

        Args:
            size: memories of the scope.
            mentions: local rows and local entity numbers.
            titles: local rows and the entities that are their titles.
            names: of the entities, by local number.
            keys: `name_key`s, ascending, and entities.
            first_entity: see the class.
        """
        count = max(len(names), 1)
        titled = titles[0] * count + titles[1]
        pairs = np.sort(np.concatenate([mentions[0] * count + mentions[1], titled]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # `np.unique` hashes, which takes seventy times as long
        rows, entity = pairs // count, pairs % count
        df = np.bincount(entity, minlength=count)
        linking = (df[entity] >= 2) & (df[entity] <= max(5, 0.05 * size))
        rows, entity = rows[linking], entity[linking]
        is_own_title = np.isin(pairs[linking], titled)
        is_title = np.zeros(count, bool)
        is_title[titles[1]] = True
        factor = np.where(is_own_title, OWN_TITLE, np.where(is_title[entity], TITLE, 1.0))
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

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "PassageGraph":
        """Makes it of the part `passages` of a scope of `size` memories; without arrays it has no names."""
        nothing = np.zeros(0, np.int64)

        def pair(a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
            return np.asarray(arrays.get(a, nothing), np.int64), np.asarray(arrays.get(b, nothing), np.int64)

        return cls.build(
            size,
            pair("mention_row", "mention_entity"),
            pair("title_row", "title_entity"),
            np.asarray(arrays.get("names", []), dtype=object),
            pair("key", "key_entity"),
            int(arrays["first_entity"][0]) if "first_entity" in arrays else 0,
        )

    @property
    def nbytes(self) -> int:
        """Size in bytes; names count 80 each."""
        edges = (self.rows, self.entities, self.to_entity, self.to_row, self.edges_by_entity, *self.linking)
        entities = (self.df, self.titled, self.keys, self.entity_of_key)
        return sum(a.nbytes for a in (*edges, *entities)) + 80 * len(self.names)

    def named_in(self, text: str) -> list[int]:
        """Returns the entities that a text names, ascending; several may have one name."""
        return find_named_entities(text, self._of_key)

    def _of_key(self, key: int) -> list[int]:
        first, beyond = np.searchsorted(self.keys, [key, key + 1])
        found: list[int] = self.entity_of_key[first:beyond].tolist()
        return found

    def walk(
        self, start_rows: np.ndarray, start_entities: np.ndarray, allowed: np.ndarray, steps: int, follow: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the shares of memories and entities after some steps of a walk that keeps returning to its start.

        Args:
            start_rows: where it starts and returns to, shape (memories,).
            start_entities: the same over entities.
            allowed: which memories the walk may cross, shape (memories,) bool.
            steps: of the walk.
            follow: share that follows edges at each step; the rest returns.
        """
        known, at_edge = self.linking
        at_rows, from_known = start_rows, start_entities[known]
        at_known = from_known
        for _ in range(steps):
            # Only the edges in use, in their order: the same sums as over all, to the last bit.
            active = np.flatnonzero(at_rows)
            out = ranges(np.searchsorted(self.rows, active), np.searchsorted(self.rows, active, "right"))
            back = np.sort(self.edges_by_entity.of_all(known[np.flatnonzero(at_known)]))
            to_entities = np.bincount(at_edge[out], at_rows[self.rows[out]] * self.to_entity[out], len(known))
            to_rows = np.bincount(self.rows[back], at_known[at_edge[back]] * self.to_row[back], self.size)
            at_rows = follow * (to_rows * allowed) + (1 - follow) * start_rows
            at_known = follow * to_entities + (1 - follow) * from_known
        at_entities = (1 - follow) * start_entities
        at_entities[known] = at_known
        return at_rows, at_entities

    @cached_property
    def linking(self) -> tuple[np.ndarray, np.ndarray]:
        """The entities that have edges, one in six of all, and of each edge the number of its entity among them."""
        return np.flatnonzero(self.linked), (np.cumsum(self.linked) - 1)[self.entities]

    def edges_of(self, row: int) -> np.ndarray:
        """Returns the edge numbers of a memory."""
        low, high = np.searchsorted(self.rows, [row, row + 1])
        return np.arange(low, high)


def _sum(at: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    return np.maximum(np.bincount(at, weight, size), 1e-12)


# The sentences of single memories, as a store reads and caches them, and those of several as one table.

_OVERHEAD_BYTES = 600  # of one cache entry


@dataclass(frozen=True)
class MemorySentences:
    """The sentences of one memory.

    Attributes:
        spans: start and end of each in the text, shape (n, 2) int32.
        counts: how many entities each names, shape (n,); None where names are not indexed.
        entities: local numbers of these, the sentences one after the other, ascending in each.
        vectors: float16, shape (n, dimensions); None where the build embedded none.
        words: None in a build of an earlier version.
    """

    spans: np.ndarray
    counts: np.ndarray | None
    entities: np.ndarray
    vectors: np.ndarray | None
    words: SentenceTerms | None

    @property
    def nbytes(self) -> int:
        """Size in bytes, the bookkeeping of one cache entry included."""
        words = [self.words.counts, self.words.keys] if self.words else []
        arrays = [self.spans, self.counts, self.entities, self.vectors, *words]
        return sum(a.nbytes for a in arrays if a is not None) + _OVERHEAD_BYTES


NO_SENTENCES = MemorySentences(np.zeros((0, 2), "<i4"), None, np.zeros(0, np.int64), None, None)


def join_named(found: Mapping[int, MemorySentences], words: Mapping[int, SentenceTerms]) -> Sentences:
    """Returns the sentences of memories by local row as one table.

    Args:
        found: memories whose names are indexed.
        words: of them; not read where all sentences have vectors.
    """
    vectors = [s.vectors for s in found.values() if s.vectors is not None]
    counts = [s.counts for s in found.values() if s.counts is not None]
    embedded = bool(found) and len(vectors) == len(found)
    nothing = np.zeros(0, np.int64)
    return Sentences(
        np.repeat(np.array(list(found), np.int64), [len(c) for c in counts]),
        np.concatenate([nothing, *counts]),
        np.concatenate([nothing, *(s.entities for s in found.values())]),
        np.concatenate(vectors).astype(np.float32) if embedded else None,
        join_sentences([] if embedded else list(words.values())),
    )
