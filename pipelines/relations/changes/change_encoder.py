"""Reads a new statement together with the older ones that it may end: a small fine-tuned transformer, as int8 ONNX.

Of each older statement it returns how likely the newer one ends it, what the pair is otherwise, and which of its words
are outdated. Each input is its own batch: the scale of int8 activations is taken over a batch, and what is read of one
input must not depend on others. `palimpsest.eval.labels.training.train_change_encoder` trains it; data/models/README.md
is its card.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.relations.changes.change_input import ChangeInput, Statement, build_input
from palimpsest.relations.classify.encoder.word_vectors import load_tokenizer
from palimpsest.store.home import SHIPPED

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

PAIR_CLASSES = ("update", "extend", "conditional", "derive", "none", "static")
"""In the order of the graph's output. `conditional` is an EXTEND, `static` a NONE that contradicts the older."""
GRAPH_FILE = "models/change_encoder.onnx"
_THREADS = 2


class ChangeQuestion(NamedTuple):
    """A new statement and the older ones of which it may end one, oldest first."""

    newer: Statement
    older: Sequence[Statement]


@dataclass(frozen=True)
class ChangeReading:
    """What the encoder reads of one question; row i is of the i-th older statement.

    Attributes:
        scores: log odds that the newer statement ends this one, against ending none, shape (n,).
        classes: log probabilities of PAIR_CLASSES, shape (n, 6).
        features: what both are computed from, shape (n, d).
        outdated: of each older statement ((start, end) in its text, probability that these characters are outdated).
    """

    scores: np.ndarray
    classes: np.ndarray
    features: np.ndarray
    outdated: Sequence[Sequence[tuple[tuple[int, int], float]]]


@dataclass(frozen=True)
class ChangeEncoder:
    """The encoder.

    Attributes:
        graph: the serialized ONNX model.
    """

    graph: bytes

    @cached_property
    def key(self) -> str:
        """Names the weights."""
        return hashlib.sha256(self.graph).hexdigest()[:16]

    def read(
        self, questions: Sequence[ChangeQuestion], advance: Callable[[int], None] = lambda n: None
    ) -> list[ChangeReading]:
        """Returns what is read of each question, in order.

        Args:
            questions: each has at least one older statement.
            advance: is called with the number of older statements read.
        """
        inputs = [build_input(self._tokenizer, *question) for question in questions]
        out: list[ChangeReading] = []
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as threads:
            for reading in threads.map(self._run, inputs):
                out.append(reading)
                advance(len(reading.scores))
        return out

    def _run(self, given: ChangeInput) -> ChangeReading:
        older, newer = given.pools()
        fed = {
            "input_ids": np.array([given.ids], np.int64),
            "token_type_ids": np.array([given.types], np.int64),
            "older": older,
            "newer": newer,
        }
        scores, classes, features, spans = self._session.run(None, fed)
        probability = 1.0 / (1.0 + np.exp(-np.asarray(spans, np.float64)))
        outdated = [
            [(chars, float(p)) for chars, p in zip(s.chars, probability[s.start : s.end], strict=True) if chars[0] >= 0]
            for s in given.slots
        ]
        return ChangeReading(np.asarray(scores), np.asarray(classes), np.asarray(features), outdated)

    @cached_property
    def _session(self) -> "InferenceSession":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            return onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])
        except Exception as e:  # onnxruntime raises classes of its own
            raise ComponentFailed(
                f"change encoder: not an ONNX model ({type(e).__name__}); install palimpsest-memory again"
            ) from None

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        return load_tokenizer()


@lru_cache(maxsize=1)
def change_encoder() -> ChangeEncoder:
    """Returns the encoder that comes with Palimpsest, opened when it is first used.

    Raises:
        ComponentFailed: its file is missing.
    """
    try:
        return ChangeEncoder((SHIPPED / GRAPH_FILE).read_bytes())
    except OSError as e:
        raise ComponentFailed(f"change encoder: {e.filename} cannot be read; install palimpsest-memory again") from None
