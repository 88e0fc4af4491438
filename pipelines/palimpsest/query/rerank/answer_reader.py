"""How well memories answer a question: a transformer of four layers reads the question together with each.

It is shipped as an ONNX graph of whole numbers. Each pair is an input of its own, so that what is read of one does not
depend on the others. `palimpsest_eval.relevance.train_reader` trains it; data/models has its figures.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.query.request.types import Memory, one_line
from palimpsest.store.home import SHIPPED
from palimpsest.text.tokenizer import tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL_FILE = "models/answer_reader.onnx"
MAX_TOKENS = 96
"""Of a question and a memory together; the rest of the memory is not read."""
_MAX_QUESTION_TOKENS = 48
_MARKS, _MARKS_OF_CODE = frozenset('{}()[];=<>_/*&|#\\:"$@'), 0.06
_MAX_CHARS = 2_000  # of either
_THREADS = 2
_CACHED = 4_096


class AnswerReader:
    """Reads the first candidates of each search. Safe to share between threads."""

    name = "answers"

    def read(self, question: str, memories: Sequence[Memory]) -> np.ndarray:
        """Returns the log odds that each memory answers the question or a part of it, shape (n,).

        Raises:
            ComponentFailed: the graph is missing or damaged.
        """
        lines = [memory_line(m) for m in memories]
        if lines:
            _session()  # opened once, before threads ask for it
        return np.array(list(_threads().map(_read, [question] * len(lines), lines)), float)


def is_prose(memories: Sequence[Memory]) -> bool:
    """Returns whether most memories are prose: the reader has seen no code, and ranks it worse than the scores do."""
    shares = [sum(c in _MARKS for c in text) / max(1, len(text)) for m in memories if (text := m.text[:_MAX_CHARS])]
    return not shares or float(np.median(shares)) < _MARKS_OF_CODE


def memory_line(memory: Memory) -> str:
    """Returns a memory as it is read: after its day and who said it."""
    day = f"{memory.observed_at:%Y-%m-%d}" if memory.observed_at else ""
    return spoken_line(day, memory.speaker or "", one_line(memory.text[:_MAX_CHARS]))


def spoken_line(day: str, speaker: str, text: str) -> str:
    """Returns a text after its day and who said it, where these are known: the line that the reader is trained on."""
    head = ", ".join(part for part in (day, speaker) if part)
    return f"{head}: {text}" if head else text


def pair_tokens(question: str, line: str) -> tuple[list[int], list[int]]:
    """Returns token ids and token types of a question and a memory: `[CLS] question [SEP] memory [SEP]`."""
    first, second = (tokenizer().encode(text[:_MAX_CHARS]).ids for text in (question, line))
    first = _truncated(first, _MAX_QUESTION_TOKENS)
    second = _truncated(second[1:], MAX_TOKENS - len(first))
    return [*first, *second], [0] * len(first) + [1] * len(second)


def _truncated(ids: list[int], most: int) -> list[int]:
    """Returns at most so many tokens, of which the last one ends every text."""
    return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]


@lru_cache(maxsize=_CACHED)
def _read(question: str, line: str) -> float:
    ids, types = pair_tokens(question, line)
    (found,) = _session().run(
        None, {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)}
    )
    return float(found[0])


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1), thread_name_prefix="answers")


@cache
def _session() -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(SHIPPED / MODEL_FILE), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime raises classes of its own
        raise ComponentFailed(
            f"answer reader: data/{MODEL_FILE} cannot be loaded ({type(e).__name__}); install palimpsest-memory again"
        ) from None
