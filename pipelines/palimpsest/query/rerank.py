"""Puts the best candidates of a search in a new order: by their relevance, or by what another reranker says."""

import os
import threading
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from palimpsest.core.errors import ArgumentError, first_line_of, missing_extra
from palimpsest.core.files import SHIPPED, hash_of_file
from palimpsest.core.onnx_graph import SLOW_FUSIONS, open_graph
from palimpsest.memories.sentence_model import prepare_torch
from palimpsest.query.context.changes import reasons_of_parts, without_ended_parts
from palimpsest.query.ranking.merge import READ, relevance
from palimpsest.query.ranking.scoring import z_values
from palimpsest.query.readings import Readings
from palimpsest.query.request.types import Memory, one_line
from palimpsest.query.scope.scope_query import Candidate, Ranked, ScopeQuery
from palimpsest.query.scope.served_scope import PART
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.terms import terms
from palimpsest.text.tokenizer import tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from sentence_transformers import CrossEncoder


# How well memories answer a question: a transformer of four layers reads the question together with each.
#
# It is shipped as an ONNX graph of whole numbers. Each pair is an input of its own, so that what is read of one does
# not depend on the others. `palimpsest_eval.training.train_reader` trains it; data/models has its figures.


MODEL_FILE = "models/answer_reader.onnx"
MAX_TOKENS = 96
"""Of a question and a part of a memory together."""
_MAX_QUESTION_TOKENS = 48
_MARKS, _MARKS_OF_CODE = frozenset('{}()[];=<>_/*&|#\\:"$@'), 0.06
_MAX_CHARS, _MAX_MEMORY_CHARS, _MAX_PLACE_CHARS = 2_000, 8_000, 80
_PASSAGES, _CHANCE = 2, 0.5  # of a memory; see AnswerReader.read
_THREADS = 2
_CACHED = 16_384


class AnswerReader:
    """Reads the first candidates of each search. Safe to share between threads.

    Attributes:
        readings: what was read before; None where nothing is kept.
    """

    name = "answers"

    def __init__(self, readings: Readings | None = None):
        self.readings = readings

    def read(self, question: str, memories: Sequence[Memory]) -> np.ndarray:
        """Returns the log odds that each memory answers the question or a part of it, shape (n,).

        A memory that is too long to be read at once is read in n passages. The best of them counts, less half of log n:
        the best of several is higher by chance.

        Raises:
            ComponentFailed: the graph is missing or damaged.
        """
        parts = [(n, line) for n, m in enumerate(memories) for line in memory_lines(question, m)]
        if parts:
            _session()  # opened once, before threads ask for it
        odds = _threads().map(self._odds, [question] * len(parts), [line for _, line in parts])
        found, of = np.full(len(memories), -np.inf), np.array([n for n, _ in parts], int)
        np.maximum.at(found, of, np.fromiter(odds, float, len(parts)))
        return found - _CHANCE * np.log(np.bincount(of, minlength=len(memories)))

    def _odds(self, question: str, line: str) -> float:
        return _read(question, line) if self.readings is None else self.readings.of(question, line, _read)


def reader_model() -> str:
    """Names the model that reads, and how it is run."""
    return "-".join((hash_of_file(SHIPPED / MODEL_FILE), *SLOW_FUSIONS))


def is_prose(memories: Sequence[Memory]) -> bool:
    """Returns whether most memories are prose: the reader has seen no code, and ranks it worse than the scores do."""
    shares = [sum(c in _MARKS for c in text) / max(1, len(text)) for m in memories if (text := m.text[:_MAX_CHARS])]
    return not shares or float(np.median(shares)) < _MARKS_OF_CODE


def memory_lines(question: str, memory: Memory) -> list[str]:
    """Returns what is read of a memory: all of it where that fits, else the passages that share most words with it.

    Each is read after the memory's day and who said it, a passage of several also after the title and the heading.
    """
    start = memory_start(memory)
    room = MAX_TOKENS - len(_question_tokens(question))
    text = memory.text[:_MAX_MEMORY_CHARS]
    sentences = _sentences(text)
    parts = _packed(text, sentences, room - len(tokenizer().encode(start).ids))
    if len(parts) == 1:
        return [start + parts[0]]
    section = (memory.heading or "").rpartition(" > ")[2]
    if place := " > ".join(dict.fromkeys(part for part in (memory.title, section) if part and section)):
        start += f"{place[:_MAX_PLACE_CHARS]}: "
        parts = _packed(text, sentences, room - len(tokenizer().encode(start).ids))
    if len(parts) > _PASSAGES:
        wanted = set(terms(question))
        shared = [len(wanted.intersection(terms(part))) for part in parts]
        best = sorted(range(len(parts)), key=lambda n: (-shared[n], n))[:_PASSAGES]
        parts = [parts[n] for n in sorted(best)]
    return [start + part for part in parts]


def memory_start(memory: Memory) -> str:
    """Returns what is read before a memory: its day, and who said it."""
    return spoken_line(f"{memory.observed_at:%Y-%m-%d}" if memory.observed_at else "", memory.speaker or "", "")


def passages(text: str, room: int) -> list[str]:
    """Returns a text in parts of whole sentences, each of at most `room` tokens; a longer sentence is a part alone."""
    return _packed(text, _sentences(text), room)


@lru_cache(maxsize=1024)
def _sentences(text: str) -> tuple[tuple[int, int, int], ...]:
    """Returns start, end and number of tokens of each sentence."""
    starts = [start for start, _ in tokenizer().encode(text).offsets[1:-1]]
    spans = memory_sentence_spans(text)
    return tuple((start, end, bisect_left(starts, end) - bisect_left(starts, start)) for start, end in spans)


def _packed(text: str, sentences: Sequence[tuple[int, int, int]], room: int) -> list[str]:
    spans: list[tuple[int, int]] = []
    used = 0
    for start, end, tokens in sentences:
        if spans and used + tokens <= room:
            spans[-1], used = (spans[-1][0], end), used + tokens
        else:
            spans.append((start, end))
            used = tokens
    return [one_line(text[start:end]) for start, end in spans] or [one_line(text)]


def spoken_line(day: str, speaker: str, text: str) -> str:
    """Returns a text after its day and who said it, where these are known: the line that the reader is trained on."""
    head = ", ".join(part for part in (day, speaker) if part)
    return f"{head}: {text}" if head else text


def pair_tokens(question: str, line: str) -> tuple[list[int], list[int]]:
    """Returns token ids and token types of a question and a memory: `[CLS] question [SEP] memory [SEP]`."""
    first = _question_tokens(question)
    second = _truncated(tokenizer().encode(line[:_MAX_CHARS]).ids[1:], MAX_TOKENS - len(first))
    return [*first, *second], [0] * len(first) + [1] * len(second)


@lru_cache(maxsize=64)  # it is read with each passage
def _question_tokens(question: str) -> tuple[int, ...]:
    return tuple(_truncated(tokenizer().encode(question[:_MAX_CHARS]).ids, _MAX_QUESTION_TOKENS))


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
    return open_graph(SHIPPED / MODEL_FILE, f"answer reader: data/{MODEL_FILE} cannot be loaded", SLOW_FUSIONS)


# What reranks: the interface, and which reranker a name means.

RERANKED = 30
"""Candidates that a reranker reads at most."""

ENVIRONMENT_VARIABLE = "PALIMPSEST_RERANKER"
LANGUAGE_MODEL = "lm"
NO_RERANKER = "none"


class RerankerFailed(Exception):
    """The reranker gave no scores; the message says why. The search goes on without it."""


class Reranker(Protocol):
    """Scores texts for one question. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What results name it by."""

    def score(self, question: str, texts: Sequence[str]) -> np.ndarray:
        """Returns how well each text answers the question, shape (len(texts),) float64, on any one scale.

        Raises:
            RerankerFailed: it has no scores for these.
        """


AnyReranker = Reranker | AnswerReader
"""What reads the best candidates: the reader's log odds are one part of the relevance, another's scores an order."""


def open_reranker(name: str | None, home: Path | None) -> AnyReranker | None:
    """Returns a reranker, loaded at its first use; None where there is none.

    Args:
        name: `answers` for the model that is shipped, `lm` for the model of PALIMPSEST_LM, `none`, else the folder or
            the name of a cross-encoder; None for what PALIMPSEST_RERANKER names, which is `answers` by default.
        home: where the ledger of paid answers is; without one nothing is stored.

    Raises:
        ArgumentError: it is no name of a model.
        PalimpsestError: `lm` is named, and a setting of the language model is missing or wrong.
    """
    name = os.environ.get(ENVIRONMENT_VARIABLE, "") or AnswerReader.name if name is None else name
    if name in ("", NO_RERANKER):
        return None
    if name == AnswerReader.name:
        return AnswerReader()
    if name == LANGUAGE_MODEL:
        from palimpsest.lm.settings import lm_settings
        from palimpsest.query.lm_reranker import LmReranker

        return LmReranker(lm_settings(), home)
    if "\0" in name or name.startswith("-"):
        raise ArgumentError("reranker", "is no folder and no name of a model; fix it", name[:80])

    return CrossEncoderReranker(name)


@dataclass(frozen=True)
class Reranking:
    """What a reranker did.

    Attributes:
        name: of the reranker.
        candidates: how many it read.
        failed: why it gave no scores, and the order is that of the ranking; None where it did.
    """

    name: str
    candidates: int
    failed: str | None = None


def rerank_candidates(reranker: Reranker, question: str, ranked: Sequence[Ranked]) -> tuple[list[Ranked], Reranking]:
    """Returns the candidates with the first `RERANKED` in a new order, the others after them as they were.

    The order is by z(score) + z(score of the reranker), each over the candidates that were read, ties as they were: a
    reranker alone is known to lose on texts unlike those that it was trained on.

    Args:
        reranker: reads the texts.
        question: the query.
        ranked: best first.
    """
    read, rest = list(ranked[:RERANKED]), list(ranked[RERANKED:])
    if len(read) < 2:
        return [*read, *rest], Reranking(reranker.name, 0)
    try:
        scores = reranker.score(question, [m.text for m in _memories(read)])
    except RerankerFailed as e:
        return [*read, *rest], Reranking(reranker.name, 0, str(e))
    own = np.array([candidate.score for _, candidate in read])
    fused = z_values(own) + z_values(scores)
    order = np.argsort(-fused, kind="stable").tolist()
    best = [(read[i][0], replace(read[i][1], rerank=float(scores[i]))) for i in order]
    return [*best, *rest], Reranking(reranker.name, len(read))


_SUCCESSION = 0.9
"""Share of the relevance of a memory that what took its place, or ended a part of it, has at least."""


def with_relevance(reader: AnswerReader | None, question: str, ranked: Sequence[Ranked]) -> list[Ranked]:
    """Returns candidates with their relevance; where a reader reads the first `READ`, prose, those in order of it.

    What took the place of another memory, or of a part of it, is nearly as relevant as that was: `The last box is
    unpacked in Nashik` says little of a flat by itself. What only asks the same, as chats store it, answers nothing.

    Args:
        reader: reads the texts; without one the scores alone say what is relevant, and the order stays.
        question: the query.
        ranked: best first.
    """
    memories = _memories(ranked[:READ]) if reader is not None else []
    reads = reader is not None and is_prose(memories)
    answers = reader.read(question, memories) if reader is not None and reads else np.empty(0)
    chances = relevance([c for _, c in ranked], answers)
    older = {n: (q, c.stands_for) for n, (q, c) in enumerate(ranked) if c.stands_for is not None}
    if older:
        if reader is not None and reads:
            said = {n: _replaced(q, c) for n, (q, c) in older.items() if n < len(answers)}
            answers[list(said)] = reader.read(question, list(said.values()))
        as_said = relevance([older[n][1] if n in older else c for n, (_, c) in enumerate(ranked)], answers)
        places = list(older)
        chances[places] = np.maximum(chances[places], _SUCCESSION * as_said[places])
    chances[[n for n, memory in enumerate(memories) if _asks_the_same(question, memory.text)]] = 0.0
    judged = [(q, replace(c, relevance=p)) for (q, c), p in zip(ranked, chances.tolist(), strict=True)]
    first = sorted(judged[: len(answers)], key=lambda pair: -pair[1].relevance)
    return [*first, *judged[len(answers) :]]


def _asks_the_same(question: str, text: str) -> bool:
    """Returns whether a text is a question without a word that another question has not."""
    return text.rstrip().endswith(("?", "\uff1f")) and set(terms(text)) <= set(terms(question))


def _replaced(query: ScopeQuery, older: Candidate) -> Memory:
    """Returns the memory that a candidate stands for; where it took the place of a part, with the text of the part."""
    link = older.hops[0]
    memory = query.served.memories([link.source])[link.source]
    reasons = query.served.all_reasons([link.source]).get(link.source, ())
    parts = [memory.text[a:b] for r in reasons if r["kind"] == PART and r["by"] == link.target for a, b in r["part"]]
    return replace(memory, text=" ".join(parts)) if parts else memory


def _memories(ranked: Sequence[Ranked]) -> list[Memory]:
    """Returns the memories of candidates, as results show them: a part that a newer memory ended answers nothing."""
    found: dict[tuple[int, str], Memory] = {}
    for query in {id(q): q for q, _ in ranked}.values():
        ids = [c.memory_id for q, c in ranked if q is query]
        memories = query.served.memories(ids)
        if not query.filters.history:
            memories = without_ended_parts(memories, reasons_of_parts(query.served, ids))
        found |= {(id(query), i): memory for i, memory in memories.items()}
    return [found[id(q), c.memory_id] for q, c in ranked]


_BATCH = 32
_HUB_TIMEOUT_S = 3


class CrossEncoderReranker:
    """A cross-encoder of a folder, or of a name on the Hugging Face Hub.

    Weights are read from safetensors alone and code that comes with a model is never run: a pickle or a module from
    elsewhere could do anything.
    """

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """See Reranker."""
        return self._name

    def score(self, question: str, texts: Sequence[str]) -> np.ndarray:
        """See Reranker; what the model predicts for each pair, truncated to what it reads.

        Raises:
            ArgumentError: the model is not there, cannot be loaded, or has not one output.
        """
        with self._lock:
            scores = self._model.predict(
                [(question, text) for text in texts], batch_size=_BATCH, show_progress_bar=False
            )
        return np.asarray(scores, np.float64)

    @cached_property
    def _model(self) -> "CrossEncoder":
        model = self._find()
        if model.num_labels != 1:
            problem = f"has {model.num_labels} outputs; give a model that has one"
            raise ArgumentError("reranker", problem, self._name)
        return model

    def _find(self) -> "CrossEncoder":
        if Path(self._name).is_dir():
            return self._load(local_files_only=True)
        if _is_cached(self._name):
            with suppress(ArgumentError):  # its download was stopped
                return self._load(local_files_only=True)
        _ask_hub(self._name)
        return self._load(local_files_only=False)

    def _load(self, local_files_only: bool) -> "CrossEncoder":
        try:
            prepare_torch()
            from sentence_transformers import CrossEncoder

            model: CrossEncoder = CrossEncoder(
                self._name,
                device="cpu",
                trust_remote_code=False,
                local_files_only=local_files_only,
                model_kwargs={"use_safetensors": True},
            )
            return model
        except ModuleNotFoundError as e:
            raise missing_extra(e, "build") or e from None
        except (OSError, ValueError, KeyError) as e:
            problem = f"cannot be loaded ({first_line_of(e)}); give the folder or the name of a cross-encoder"
            raise ArgumentError("reranker", f"{problem} with safetensors weights, or lm", self._name) from None


def _is_cached(name: str) -> bool:
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(name, "config.json", local_files_only=True)
    except (OSError, ValueError):  # it is not there, or no name of a model
        return False
    return True


def _ask_hub(name: str) -> None:
    """Asks the hub once for a model.

    Loading asks for each of its files, several times over, before it says that there is no network or no such model.

    Raises:
        ArgumentError: the hub has none, or does not answer.
    """
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(name, timeout=_HUB_TIMEOUT_S)
    except Exception as e:  # the hub's client raises classes of its own
        problem = f"is no folder and no model that the hub gives ({first_line_of(e)}); name another, lm or none"
        raise ArgumentError("reranker", problem, name[:80]) from None
