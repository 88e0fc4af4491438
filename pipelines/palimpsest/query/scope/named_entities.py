"""Entities rare enough to link memories: those that a question names, and the memories that share one."""

from dataclasses import dataclass
from functools import cached_property

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
        of_row: entities that each memory names.
    """

    names: np.ndarray
    weight: np.ndarray
    rows: Adjacency
    of_row: Adjacency

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "NamedEntities":
        """Makes it of the part `named` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        names = np.asarray(arrays.get("names", []), dtype=object)
        entity, row = (arrays.get(n, nothing).astype(np.int64) for n in ("entity", "row"))
        rows, of_row = Adjacency.of(entity, row, len(names)), Adjacency.of(row, entity, size)
        return cls(names, arrays.get("weight", np.zeros(0)), rows, of_row)

    @property
    def nbytes(self) -> int:
        """Size in bytes; names and keys count 200 each."""
        return self.weight.nbytes + self.rows.nbytes + self.of_row.nbytes + 200 * len(self.names)

    @cached_property
    def of_key(self) -> dict[int, tuple[int]]:
        """The entity of each `name_key`."""
        of_key: dict[int, tuple[int]] = {}
        for entity, name in enumerate(self.names.tolist()):
            of_key.setdefault(name_key(str(name)), (entity,))
        return of_key

    def in_text(self, text: str) -> list[int]:
        """Returns the entities that a text names, ascending."""
        return find_named_entities(text, lambda key: self.of_key.get(key, ()))

    def sharing(self, row: int, allowed: np.ndarray, n: int) -> list[tuple[int, float, str]]:
        """Returns (row, weight, entity name) of the `n` allowed rows that share the heaviest entities with `row`."""
        found: dict[int, tuple[int, float, str]] = {}
        mine = self.of_row[row]
        for entity in mine[np.argsort(-self.weight[mine], kind="stable")].tolist():
            others = self.rows[entity]
            for other in others[allowed[others]].tolist():
                if other != row and other not in found:
                    found[other] = (other, float(self.weight[entity]), str(self.names[entity]))
            if len(found) >= n:
                break
        return list(found.values())[:n]
