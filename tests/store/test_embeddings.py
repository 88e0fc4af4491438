import numpy as np
import pytest

from palimpsest.store import embeddings
from palimpsest.store.embeddings import EmbeddingStore


def unit(*first: float) -> np.ndarray:
    v = np.zeros(384, np.float32)
    v[: len(first)] = first
    return v


def test_vectors_come_back_bit_for_bit_in_the_requested_order(tmp_path):
    store = EmbeddingStore(tmp_path / "m")
    store.append(["b", "a"], np.stack([unit(1, 0.1), unit(2, 0.2)]))
    store.append(["c"], np.stack([unit(3, 0.3)]))
    assert store.missing(["a", "c", "d"]) == {"d"}
    np.testing.assert_array_equal(
        store.vectors(["c", "a", "b", "a"]), np.stack([unit(3, 0.3), unit(2, 0.2), unit(1, 0.1), unit(2, 0.2)])
    )
    assert store.vectors([]).shape == (0, 384)


@pytest.mark.parametrize(("written", "read"), [(2, 2), (3, 2), (2, 3), (100, 4)])
def test_vectors_of_several_row_groups_come_back_whatever_size_they_were_written_in(
    tmp_path, monkeypatch, written, read
):
    monkeypatch.setattr(embeddings, "_GROUP_ROWS", written)
    store = EmbeddingStore(tmp_path / "[a]*")
    store.append([f"t{i}" for i in range(9)], np.stack([unit(i) for i in range(9)]))
    monkeypatch.setattr(embeddings, "_GROUP_ROWS", read)
    wanted = [8, 0, 3, 3, 7]
    assert store.vectors([f"t{i}" for i in wanted])[:, 0].tolist() == wanted
    assert store.known() == {f"t{i}" for i in range(9)}


def test_a_text_without_a_vector_is_named_and_a_part_cut_off_while_written_is_not_seen(tmp_path):
    store = EmbeddingStore(tmp_path / "m")
    with pytest.raises(KeyError, match="no vector for text nowhere"):
        store.vectors(["nowhere"])
    store.append(["a"], np.stack([unit(1)]))
    (tmp_path / "m" / ".half.parquet.tmp").write_bytes(b"PAR1 not finished")
    assert store.known() == {"a"}


def test_compacting_keeps_every_vector_and_sweeping_drops_the_others(tmp_path):
    store = EmbeddingStore(tmp_path / "m")
    for i in range(30):
        store.append([f"t{i:02d}"], np.stack([unit(i)]))
    assert store.compact() == 0
    assert len(list((tmp_path / "m").glob("*.parquet"))) == 1
    assert store.vectors(["t17"])[0, 0] == 17
    assert store.compact({"t03", "t17"}) == 28
    assert store.known() == {"t03", "t17"}
    assert store.compact(set()) == 2
    assert list((tmp_path / "m").iterdir()) == []
