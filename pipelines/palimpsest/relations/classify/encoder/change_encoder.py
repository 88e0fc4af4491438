"""Reads a new statement together with the older ones that it may end: fine-tuned transformers, as quantized ONNX.

The chooser is small and reads all candidates; the judge is larger and reads the few that the chooser finds likely. Of
each older statement they return how likely the newer one ends it, what the pair is otherwise, and which of its words
are outdated. Each input is its own batch: the scale of int8 activations is taken over a batch, and what is read of one
input must not depend on others. `palimpsest_eval.labels.training.train_change_encoder` trains both; data/models has
their card.
"""

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.relations.classify.encoder.change_input import ChangeInput, Statement, build_input, load_tokenizer
from palimpsest.relations.classify.encoder.outdated_part import Words
from palimpsest.store.home import SHIPPED

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

PAIR_CLASSES = ("update", "extend", "conditional", "derive", "none", "static")
"""In the order of the graph's output. `conditional` is an EXTEND, `static` a NONE that contradicts the older."""
CHOOSER_FILE, JUDGE_FILE = "models/change_chooser.onnx", "models/change_judge.onnx.gz"
OUTPUTS = ("scores", "classes", "outdated", "features")
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
        outdated: the words of each older statement.
        features: what scores and classes are computed of, shape (n, hidden) float32.
    """

    scores: np.ndarray
    classes: np.ndarray
    outdated: Sequence[Words]
    features: np.ndarray


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
        if inputs:
            self._session  # noqa: B018  # opened once, before threads ask for it
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
        wanted = {given.name for given in self._session.get_inputs()}  # not every base has token types
        scores, classes, spans, features = self._session.run(
            list(OUTPUTS), {n: v for n, v in fed.items() if n in wanted}
        )
        probability = 1.0 / (1.0 + np.exp(-np.asarray(spans, np.float64)))
        outdated = [
            [(chars, float(p)) for chars, p in zip(s.chars, probability[s.start : s.end], strict=True) if chars[0] >= 0]
            for s in given.slots
        ]
        return ChangeReading(np.asarray(scores), np.asarray(classes), outdated, np.asarray(features))

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


def read_encoder(path: Path) -> ChangeEncoder:
    """Returns the encoder of a file; `.gz` is what it says.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read.
    """
    stored = path.read_bytes()
    return ChangeEncoder(gzip.decompress(stored) if path.suffix == ".gz" else stored)


@lru_cache(maxsize=2)
def shipped_encoder(file: str) -> ChangeEncoder:
    """Returns an encoder that comes with Palimpsest, opened when it is first used.

    Args:
        file: CHOOSER_FILE or JUDGE_FILE.

    Raises:
        ComponentFailed: its file is missing.
    """
    try:
        return read_encoder(SHIPPED / file)
    except (OSError, EOFError, zlib.error):
        raise ComponentFailed(f"changes: {file} cannot be read; install palimpsest-memory again") from None
