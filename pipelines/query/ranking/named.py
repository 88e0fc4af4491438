"""Entities that tell something, by their names: what a question names, and the memories that name it too."""

from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.scope_graph import Adjacency
from palimpsest.text.name_keys import find_named_entities, name_key


@dataclass(frozen=True)
class Named:
    """Entities of a scope.

    Attributes:
        names: of each.
        weight: how telling each is, as `scope_graph.telling` has it.
        rows: local rows of the memories that name each.
        of_key: the entity of each `name_key`.
    """

    names: np.ndarray
    weight: np.ndarray
    rows: Adjacency
    of_key: dict[int, tuple[int]]

    @classmethod
    def of(cls, names: np.ndarray, weight: np.ndarray, rows: Adjacency) -> "Named":
        """Makes it of all entities of a scope; those that tell nothing are not found."""
        of_key: dict[int, tuple[int]] = {}
        for entity in np.flatnonzero(weight).tolist():
            of_key.setdefault(name_key(str(names[entity])), (entity,))
        return cls(names, weight, rows, of_key)

    @property
    def nbytes(self) -> int:
        """Bytes held; names and keys count 200 each."""
        return self.weight.nbytes + self.rows.nbytes + 200 * len(self.names)

    def in_text(self, text: str) -> list[int]:
        """Returns the entities that a text names, ascending."""
        return find_named_entities(text, lambda key: self.of_key.get(key, ()))
