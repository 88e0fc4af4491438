"""Cosines of a large scope by its vectors as 8-bit integers: read in a quarter of the time, wrong by .003 at most.

Their products are whole numbers, which every processor adds to the same sum. Who ranks by them computes the cosines of
the best again by the float32 vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.query.scope.threads import threads_for

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_ZERO, _LARGEST = 128, 127  # of the unsigned integers of a vector
_LARGEST_OF_QUERY = 64  # processors without VNNI add two products of 8 bits in 16
_SCALE_BYTES = 4
PRODUCTS_GRAPH = bytes.fromhex(
    "080812003a6a0a1e0a01610a01620a047a65726f120163220d4d61744d756c496e7465676572120870726f64756374732a0b1002"
    "42047a65726f4a01805a0f0a0161120a0a08080212040a000a005a0f0a0162120a0a08080312040a000a00620f0a0163120a0a08"
    "080612040a000a0042040a001011"
)
"""An ONNX graph of one MatMulInteger: a (uint8, zero at 128) times b (int8) is c (int32). A test builds it again."""


def estimates_bytes(count: int, float_bytes: int) -> int:
    """Returns the size of the estimates of `count` vectors that take `float_bytes` as float32."""
    return float_bytes // np.dtype(np.float32).itemsize + count * _SCALE_BYTES


@dataclass(frozen=True)
class EstimatedCosines:
    """Vectors of 8-bit integers, each with a scale.

    Attributes:
        matrices: shape (m, dimensions) uint8, one below the other; 128 is zero.
        scales: of the vectors of each matrix, shape (m,) float32: a vector is about its integers times its scale.
    """

    matrices: tuple[np.ndarray, ...]
    scales: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, matrices: Sequence[np.ndarray]) -> "EstimatedCosines":
        """Makes them of matrices of shape (m, dimensions) float32."""
        found = threads_for(sum(map(len, matrices))).map(_unsigned, matrices)
        return cls(tuple(matrix for matrix, _ in found), tuple(scale for _, scale in found))

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """Returns about the cosine of each vector with the unit query, shape (vectors,) float32."""
        whole, scale = _integers(query[None], _LARGEST_OF_QUERY)
        rest, rest_scale = _integers(query[None] - whole * scale[:, None], _LARGEST_OF_QUERY)
        columns = np.concatenate([whole, rest]).T.astype(np.int8)  # without the rest all were wrong to one side
        of_part = partial(_cosines, np.ascontiguousarray(columns), np.concatenate([scale, rest_scale]))
        parts = zip(self.matrices, self.scales, strict=True)
        return np.concatenate(threads_for(sum(map(len, self.matrices))).map(of_part, parts))


def _integers(matrix: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of whole numbers up to `largest`, float32, and the scale of each; a row of zeros has the scale 0."""
    most = np.abs(matrix).max(axis=1)
    factor = largest / np.where(most > 0, most, 1)
    return np.rint(matrix * factor[:, None]), (most / largest).astype(np.float32)


def _unsigned(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    whole, scale = _integers(matrix, _LARGEST)
    whole += _ZERO
    return whole.astype(np.uint8), scale


def _cosines(query: np.ndarray, query_scales: np.ndarray, part: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    matrix, scales = part
    (products,) = _products().run(None, {"a": matrix, "b": query})
    found: np.ndarray = (products @ query_scales.astype(np.float64)).astype(np.float32)
    found *= scales
    return found


@lru_cache(maxsize=1)
def _products() -> "InferenceSession":
    """Returns the products by onnxruntime: numpy has none of 8 bits that use the processor's instructions for them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(PRODUCTS_GRAPH, options, providers=["CPUExecutionProvider"])
