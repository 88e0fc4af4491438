"""Entities rare enough to link memories, by their names: what a question names, and the memories that name it too."""

from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.scope_arrays import Arrays
from palimpsest.query.scope.scope_graph import Adjacency
from palimpsest.text.name_keys import find_named_entities, name_key


@dataclass(frozen=True)
class NamedEntities:
    """Entities of a scope.

    Attributes:
        names: of each.
        weight: of each, by `scope_graph.idf_weight`.
        rows: local rows of the memories that name each.
        of_key: the entity of each `name_key`.
    """

    names: np.ndarray
    weight: np.ndarray
    rows: Adjacency
    of_key: dict[int, tuple[int]]

    @classmethod
    def of(cls, names: np.ndarray, weight: np.ndarray, rows: Adjacency) -> "NamedEntities":
        """Makes it of entities of a scope; those of weight 0 are not found by name."""
        of_key: dict[int, tuple[int]] = {}
        for entity in np.flatnonzero(weight).tolist():
            of_key.setdefault(name_key(str(names[entity])), (entity,))
        return cls(names, weight, rows, of_key)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "NamedEntities":
        """Makes it of the part `named` of a scope."""
        nothing = np.zeros(0, np.int64)
        names = np.asarray(arrays.get("names", []), dtype=object)
        entity, row = (arrays.get(n, nothing).astype(np.int64) for n in ("entity", "row"))
        return cls.of(names, arrays.get("weight", np.zeros(0)), Adjacency.of(entity, row, len(names)))

    @property
    def nbytes(self) -> int:
        """Size in bytes; names and keys count 200 each."""
        return self.weight.nbytes + self.rows.nbytes + 200 * len(self.names)

    def in_text(self, text: str) -> list[int]:
        """Returns the entities that a text names, ascending."""
        return find_named_entities(text, lambda key: self.of_key.get(key, ()))
