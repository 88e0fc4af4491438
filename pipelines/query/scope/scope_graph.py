"""The links of one scope in memory: relations between its memories and the entities they share."""

from dataclasses import dataclass

import numpy as np

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


def ranges(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the numbers from each start to before its end, one range after the other."""
    sizes = ends - starts
    numbers: np.ndarray = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return numbers


@dataclass(frozen=True)
class ScopeGraph:
    """Relations and mentions by local row.

    Attributes:
        entities: of each row, local entity numbers; only those of weight above 0.
        rows: of each entity.
        names: of each entity.
        weight: of each entity, by `idf_weight`.
        newer: newer end of each relation.
        older: older end of each relation.
        label: of each relation.
        confidence: of each relation.
        from_newer: relations by their newer end.
        from_older: relations by their older end.

    One made without mentions has the relations only.
    """

    entities: Adjacency
    rows: Adjacency
    names: np.ndarray
    weight: np.ndarray
    newer: np.ndarray
    older: np.ndarray
    label: np.ndarray
    confidence: np.ndarray
    from_newer: Adjacency
    from_older: Adjacency

    @property
    def nbytes(self) -> int:
        """Size in bytes; names count 80 each."""
        arrays = (
            self.entities,
            self.rows,
            self.weight,
            self.newer,
            self.older,
            self.confidence,
            self.from_newer,
            self.from_older,
        )
        return sum(a.nbytes for a in arrays) + 80 * len(self.names) + 8 * len(self.label)

    @classmethod
    def build(
        cls,
        size: int,
        mentions: tuple[np.ndarray, np.ndarray],
        entities: tuple[np.ndarray, np.ndarray],
        relations: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    ) -> "ScopeGraph":
        """Makes the graph of a scope of `size` memories.

        Args:
            size: memories of the scope.
            mentions: local rows and local entity numbers.
            entities: name and document frequency by local number.
            relations: newer row, older row, label and confidence.
        """
        names, df = entities
        weight = idf_weight(df, size)
        row, entity = mentions
        useful = weight[entity] > 0
        row, entity = row[useful], entity[useful]
        newer, older, label, confidence = relations
        number = np.arange(len(newer))
        return cls(
            entities=Adjacency.of(row, entity, size),
            rows=Adjacency.of(entity, row, len(names)),
            names=names,
            weight=weight,
            newer=newer,
            older=older,
            label=label,
            confidence=confidence,
            from_newer=Adjacency.of(newer, number, size),
            from_older=Adjacency.of(older, number, size),
        )

    def related(self, row: int) -> list[tuple[int, float, str]]:
        """Returns (row, confidence, label): EXTEND and DERIVE in both directions, UPDATE to the newer memory only."""
        out = [
            (int(self.older[i]), float(self.confidence[i]), str(self.label[i]))
            for i in self.from_newer[row]
            if self.label[i] != "UPDATE"
        ]
        return out + [(int(self.newer[i]), float(self.confidence[i]), str(self.label[i])) for i in self.from_older[row]]

    def sharing(self, row: int, allowed: np.ndarray, n: int) -> list[tuple[int, float, str]]:
        """Returns (row, weight, entity name) of the `n` allowed rows that share the heaviest entities with `row`."""
        found: dict[int, tuple[int, float, str]] = {}
        mine = self.entities[row]
        for entity in mine[np.argsort(-self.weight[mine], kind="stable")].tolist():
            others = self.rows[entity]
            for other in others[allowed[others]].tolist():
                if other != row and other not in found:
                    found[other] = (other, float(self.weight[entity]), str(self.names[entity]))
            if len(found) >= n:
                break
        return list(found.values())[:n]
