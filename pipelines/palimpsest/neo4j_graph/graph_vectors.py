"""The vectors of a load by collection, and the label and vector index that each space has in the graph."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from palimpsest.memories.vector_space import MINILM, IndexedSpace, Space, VectorLookup
from palimpsest.neo4j_graph.model import VectorSpace


@dataclass(frozen=True)
class GraphVectors:
    """The vectors that a load writes.

    Attributes:
        lookup: the vectors of text hashes of collections that are not in `spaces`.
        model: name of their embedder.
        spaces: the vectors of other collections, by collection.
        indexes: the label and index of those.
    """

    lookup: VectorLookup
    model: str
    spaces: Mapping[str, IndexedSpace] = field(default_factory=dict)
    indexes: Mapping[str, VectorSpace] = field(default_factory=dict)

    @classmethod
    def of(
        cls, lookup: VectorLookup, model: str, indexed: Mapping[str, IndexedSpace], spaces: Mapping[str, Space]
    ) -> "GraphVectors":
        """Returns the vectors of a home's build.

        Args:
            lookup: MiniLM's vectors.
            model: name of MiniLM's space.
            indexed: the vectors of each collection, by name.
            spaces: the space of each collection, by name.
        """
        others = {name: s for name, s in spaces.items() if s.embedder != MINILM}
        own = {name: graph_space(space) for name, space in others.items()}
        return cls(lookup, model, {name: indexed[name] for name in others}, own)

    @property
    def name(self) -> str:
        """What identifies these vectors: the model, and the spaces of collections that have another."""
        return ";".join([self.model, *(f"{c}={s.name}" for c, s in sorted(self.spaces.items()))])

    def vectors_of(self, collection: str) -> VectorLookup:
        """Returns the vectors of a collection."""
        return self.spaces[collection].lookup if collection in self.spaces else self.lookup

    def model_of(self) -> pl.Expr:
        """Returns the name of the space of each row, by its collection."""
        names = {collection: space.name for collection, space in self.spaces.items()}
        return pl.col("collection").replace_strict(names, default=self.model, return_dtype=pl.String)

    def parts(self, rows: pl.DataFrame) -> Iterator[tuple[VectorSpace, VectorLookup, pl.DataFrame]]:
        """Yields the rows of each space, with its label and its vectors."""
        yield VectorSpace(), self.lookup, rows.filter(~pl.col("collection").is_in(list(self.spaces)))
        for collection, space in sorted(self.spaces.items()):
            yield self.indexes[collection], space.lookup, rows.filter(pl.col("collection") == collection)


def graph_space(space: Space | None) -> VectorSpace:
    """Returns the label and the index of a space; None means MiniLM's."""
    if space is None or space.embedder == MINILM:
        return VectorSpace()
    return VectorSpace.of_space(space.name, space.dimensions)
