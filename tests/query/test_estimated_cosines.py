"""Cosines of a large scope: estimated by int8, and exact for what may be a result."""

import numpy as np
import pytest

from palimpsest.query import Scope, open_home
from palimpsest.query.ranking import conversation
from palimpsest.query.ranking.scoring import leading
from palimpsest.query.scope import scope_arrays
from palimpsest.query.scope.scope_arrays import PRODUCTS_GRAPH, EstimatedCosines, ScopeVectors
from palimpsest_eval.bench.run_bench import write_synthetic_home
from palimpsest_eval.bench.synthetic import COLLECTION, synthetic_build


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    found = rng.standard_normal(shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def test_estimates_are_close_and_unbiased():
    rng = np.random.default_rng(5)
    matrix, query = unit(rng, 20_000, 384), unit(rng, 384)
    found = EstimatedCosines.of((matrix[:7000], matrix[7000:])).cosines(query)
    errors = found - matrix @ query
    assert np.abs(errors).max() < 0.003 and abs(errors.mean()) < 2e-5
    assert errors.std() == pytest.approx(0.00035, abs=0.0001)
    assert np.array_equal(EstimatedCosines.of((matrix,)).cosines(query), found)


def test_the_graph_is_one_product_of_integers():
    from onnx import TensorProto, helper, numpy_helper

    def matrix(name: str, kind: int):
        return helper.make_tensor_value_info(name, kind, [None, None])

    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "zero"], ["c"])],
        "products",
        [matrix("a", TensorProto.UINT8), matrix("b", TensorProto.INT8)],
        [matrix("c", TensorProto.INT32)],
        [numpy_helper.from_array(np.array(128, np.uint8), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="")
    assert model.SerializeToString() == PRODUCTS_GRAPH


def test_a_vector_of_zeros_and_the_nearest_of_all():
    rng = np.random.default_rng(6)
    query = unit(rng, 384)
    found = EstimatedCosines.of((np.stack([np.zeros(384, np.float32), query]),)).cosines(query)
    assert found[0] == 0 and found[1] == pytest.approx(1, abs=0.003)


def test_few_vectors_and_memories_with_several_windows_have_no_estimates():
    matrix, query = np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[0]
    assert ScopeVectors((matrix,), np.arange(3), 3).estimated_cosines(query) is None
    many = np.zeros((scope_arrays.MANY, 3), np.float32)
    assert ScopeVectors((many,), np.array([0, 2]), len(many)).estimated_cosines(query) is None
    one_each = ScopeVectors((many,), np.arange(len(many)), len(many))
    assert one_each.estimated_cosines(query).shape == (len(many),)
    assert one_each.nbytes == many.nbytes + many.nbytes // 4 + len(many) * 4 + one_each.starts.nbytes


def test_the_leading_scores_are_among_a_few():
    scores = np.random.default_rng(7).standard_normal(50_000).astype(np.float32)
    for n in (1, 10, 400, 3000):
        found = leading(scores, n)
        assert set(np.argsort(-scores)[:n]) <= set(found) and len(found) < 2 * n + 10
    assert len(leading(scores, 40_000)) == len(scores)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    build = synthetic_build(6000, 1, "turns", 25)
    write_synthetic_home(folder, build, "turns")
    return folder, build.queries, Scope(COLLECTION, build.largest)


@pytest.mark.parametrize("hops", [0, 1])
def test_results_are_those_of_exact_cosines(home, hops, monkeypatch):
    folder, questions, scope = home

    def results() -> list[list[tuple[str, float, float]]]:
        with open_home(folder, count_reads=False) as reader:
            found = (reader.search(q, scope, k=40, hops=hops) for q in questions)
            return [[(m.memory_id, m.score, m.vector_score) for m in f.memories] for f in found]

    exact = results()
    monkeypatch.setattr(scope_arrays, "MANY", 1000)
    monkeypatch.setattr(conversation, "LEADERS", 160)
    estimated = results()
    for one, other in zip(exact, estimated, strict=True):
        by_id = {i: scores for i, *scores in one}
        assert by_id.keys() == {i for i, *_ in other}
        assert np.array([by_id[i] for i, *_ in other]) == pytest.approx(
            np.array([n for _, *n in other]), rel=2e-4, abs=1e-3
        )
        # In the order of exact scores, but for those that are as good as equal.
        assert [by_id[i][0] for i, *_ in other] == pytest.approx([score for _, score, _ in one], rel=1e-4)
