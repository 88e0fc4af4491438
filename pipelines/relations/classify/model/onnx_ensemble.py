"""A fitted tree ensemble as an ONNX graph: converted by skl2onnx when it is trained, run by onnxruntime afterwards."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.core.errors import PalimpsestError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from sklearn.base import ClassifierMixin

_INPUT, _OUTPUT = "X", "probabilities"


@dataclass(frozen=True)
class OnnxEnsemble:
    """A tree ensemble, run in one thread so that the scores of a row do not depend on its batch.

    Attributes:
        graph: the serialized ONNX model: data only, so that loading one runs no code of its author.
    """

    graph: bytes

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Returns one score for each row and class, shape (len(rows), classes) float64.

        Raises:
            PalimpsestError: the graph is not an ONNX model.
        """
        scores = self._session.run([_OUTPUT], {_INPUT: rows})[0]
        return np.asarray(scores, np.float64)

    @cached_property
    def _session(self) -> "InferenceSession":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        # A graph of one node has nothing to optimize, and looking for it takes time.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            return onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])
        except Exception as e:  # onnxruntime's errors share no base class
            raise PalimpsestError(f"trained labeler: unusable ONNX graph ({type(e).__name__}); remove it") from None


def to_onnx_ensemble(fitted: "ClassifierMixin", feature_count: int, raw_scores: bool = False) -> OnnxEnsemble:
    """Converts a fitted scikit-learn ensemble.

    Args:
        fitted: a gradient boosting or forest classifier.
        feature_count: the number of columns that it was fitted on.
        raw_scores: the graph returns the sums of the leaves instead of probabilities.
    """
    from skl2onnx import to_onnx

    options: dict[str, bool] = {"zipmap": False} | ({"raw_scores": True} if raw_scores else {})
    graph = to_onnx(fitted, np.zeros((1, feature_count), np.float32), options=options)
    return OnnxEnsemble(graph.SerializeToString())
