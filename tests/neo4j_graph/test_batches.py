"""Batches of nodes with vectors: the store is read for many of them at once."""

import numpy as np
import polars as pl
import pytest

from palimpsest.neo4j_graph import writer
from palimpsest.neo4j_graph.packed import pack_block
from palimpsest.neo4j_graph.writer import node_batches


class Vectors:
    """A look-up that counts its calls; the vector of hash `n` is (n, n)."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, hashes: list[str]) -> np.ndarray:
        self.calls += 1
        return np.array([[float(h)] * 2 for h in hashes], np.float32)


@pytest.mark.parametrize(("at_once", "calls"), [(4, 2), (100, 1)])
def test_memories_have_their_vectors_however_many_are_looked_up_at_once(monkeypatch, at_once, calls):
    monkeypatch.setattr(writer, "_VECTORS_AT_ONCE", at_once)
    lookup = Vectors()
    nodes = pl.DataFrame({"id": list("abcdef"), "n": range(6), "text_hash": ["5", "4", "5", "2", "1", "0"]})
    made = list(node_batches("Memory", nodes, lookup, 2))
    assert [len(b) for b in made] == [2, 2, 2] and lookup.calls == calls
    found = [(row["properties"]["n"], row["vector"].to_native()[0]) for b in made for row in b]
    assert found == [(0, 5.0), (1, 4.0), (2, 5.0), (3, 2.0), (4, 1.0), (5, 0.0)]


def test_blocks_have_the_vectors_of_their_memories(monkeypatch):
    monkeypatch.setattr(writer, "_VECTORS_AT_ONCE", 2)
    lookup = Vectors()
    nodes = pl.DataFrame({"id": ["x", "y"], "b": [0, 1], "counts": [[1, 1], [2]], "hashes": [["3", "1"], ["7", "3"]]})
    ((first,), (second,)) = node_batches("VectorBlock", nodes, lookup, 1)
    assert first["data"] == pack_block(np.array([1, 1]), np.array([[3, 3], [1, 1]], np.float32))
    assert (second["b"], second["data"]) == (1, pack_block(np.array([2]), np.array([[7, 7], [3, 3]], np.float32)))
    assert lookup.calls == 2 and list(node_batches("VectorBlock", nodes.clear(), lookup, 1)) == []
