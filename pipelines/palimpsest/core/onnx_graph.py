"""Graphs of ONNX, as all models here are run: one thread a run, so that several runs share the processors."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.core.errors import ComponentFailed

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


SLOW_FUSIONS = ("SkipLayerNormFusion",)
"""What ONNX Runtime fuses to something slower: a sum with the normalization after it takes 5 ns a number, apart 2."""


def open_graph(graph: Path | bytes, problem: str, without: Sequence[str] = ()) -> "InferenceSession":
    """Opens a graph, which threads may run at once.

    Args:
        graph: its file, or what that says.
        problem: what to say where it is missing or damaged: `embedder: it cannot be loaded`.
        without: fusions to leave out; last digits of the results depend on them.

    Raises:
        ComponentFailed: it is.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    given = graph if isinstance(graph, bytes) else str(graph)
    try:
        return onnxruntime.InferenceSession(
            given, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(without)
        )
    except Exception as e:  # onnxruntime raises classes of its own
        raise ComponentFailed(f"{problem} ({type(e).__name__}); install palimpsest-memory again") from None
