import numpy as np
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.packed import pack_arrays, sentence_blocks_for, unpack_arrays


def test_arrays_and_texts_come_back_as_they_were_packed():
    arrays = {
        "rows": np.array([3, 1], "<i4"),
        "years": np.array([-np.inf, 1990.5]),
        "none": np.zeros((0, 384), "<f2"),
        "names": ["Ada", "", "a\nb", "\ud800", "Żółw"],
    }
    data = pack_arrays(arrays)
    found = unpack_arrays(data)
    assert found["names"] == arrays["names"] and found["none"].shape == (0, 384)
    assert all(np.array_equal(found[n], arrays[n]) and found[n].dtype == arrays[n].dtype for n in ("rows", "years"))
    assert pack_arrays(dict(reversed(arrays.items()))) == data


def test_blocks_are_a_power_of_two_so_that_growth_seldom_moves_memories():
    assert [sentence_blocks_for(n) for n in (0, 1, 16, 17, 32, 33, 125)] == [1, 1, 1, 2, 2, 4, 8]


def test_bytes_of_an_earlier_version_are_refused_with_what_to_run():
    head = b'[["row", "<i4", [2], 8]]'
    earlier = np.array([len(head)], "<i8").tobytes() + head + np.array([1, 2], "<i4").tobytes()
    for data in (earlier, b"", np.array([3, 50, 3, 0], "<i8").tobytes() + b"x" * 60):
        with pytest.raises(PalimpsestError, match="written by an earlier version; run palimpsest build --graph"):
            unpack_arrays(data)
