"""Reads a new statement together with the older ones that it may end: fine-tuned transformers, as quantized ONNX.

The chooser is small and reads all candidates; the judge is larger and reads the few that the chooser finds likely. Of
each older statement they return how likely the newer one ends it, what the pair is otherwise, and which of its words
are outdated. Each input is its own batch: the scale of int8 activations is taken over a batch, and what is read of one
input must not depend on others. `palimpsest_eval.training.train_change_encoder` trains both; data/models has
their card.
"""

import datetime as dt
import gzip
import os
import re
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit, logit

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import SHIPPED, hash_of_file
from palimpsest.core.onnx_graph import SLOW_FUSIONS, open_graph
from palimpsest.text.parse import parse_texts
from palimpsest.text.sentences import clause_spans, memory_sentence_spans, merge_spans
from palimpsest.text.tokenizer import tokenizer
from palimpsest.text.words import content_words, stem_words

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


# What the change encoder reads: a new statement and the older ones of its scope that it may end, in one input.
#
# `[CLS] newer [SEP] older 1 [SEP] older 2 [SEP] ...`, oldest first, each older one after how long before it was and who
# said it. The encoder compares the candidates with each other: which of two similar notes is meant shows in the other.

MAX_NEWER_TOKENS = 96
MAX_OLDER_TOKENS = 64
MAX_TOKENS = 512
_MAX_CHARS_OF_TOKEN = 6
_MAX_NAME_CHARS = 48
_CLS, _SEP = 101, 102


@dataclass(frozen=True)
class Statement:
    """A text as the encoder reads it.

    Attributes:
        text: of a memory.
        name: who said it.
        at: when it was said, on the clock of who said it.
    """

    text: str
    name: str = ""
    at: dt.datetime | None = None


@dataclass(frozen=True)
class Slot:
    """Where one older statement is in an input.

    Attributes:
        start: first token.
        end: one behind its last token.
        chars: (start, end) in its text of each token, (-1, -1) of what is not its text.
    """

    start: int
    end: int
    chars: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class ChangeInput:
    """One input of the encoder.

    Attributes:
        ids: token ids.
        types: 0 of the newer statement, 1 of the older ones.
        newer_end: one behind the last token of the newer statement.
        slots: of the older statements.
    """

    ids: list[int]
    types: list[int]
    newer_end: int
    slots: list[Slot]

    def pools(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the weights of tokens in the means of the older statements, (n, tokens), and of the newer."""
        older = np.zeros((len(self.slots), len(self.ids)), np.float32)
        for row, slot in enumerate(self.slots):
            older[row, slot.start : slot.end + 1] = 1.0 / (slot.end + 1 - slot.start)  # with its [SEP]
        newer = np.zeros((1, len(self.ids)), np.float32)
        newer[0, 1 : self.newer_end] = 1.0 / max(1, self.newer_end - 1)
        return older, newer


def build_input(tokenizer: "Tokenizer", newer: Statement, older: Sequence[Statement]) -> ChangeInput:
    """Returns the input of one newer statement and its candidates, in the order of `older`.

    Args:
        tokenizer: of the encoder, without padding and truncation.
        newer: the statement that may end another.
        older: at most so many that 512 tokens have room for them; of a long text the sentences nearest to the newer
            one are read.
    """
    start, text = focus(newer.text, [o.text for o in older], MAX_NEWER_TOKENS)
    first = tokenizer.encode(_named(newer.name) + text, add_special_tokens=False).ids[:MAX_NEWER_TOKENS]
    ids = [_CLS, *first, _SEP]
    types = [0] * len(ids)
    slots: list[Slot] = []
    room = max(8, min(MAX_OLDER_TOKENS, (MAX_TOKENS - len(ids)) // max(1, len(older)) - 1))
    for statement in older:
        start, text = focus(statement.text, [newer.text], room)
        prefix = _gap(statement.at, newer.at) + _named(statement.name)
        encoded = tokenizer.encode(prefix + text, add_special_tokens=False)
        spans = [
            (a - len(prefix) + start, b - len(prefix) + start) if a >= len(prefix) else (-1, -1)
            for a, b in encoded.offsets[:room]
        ]
        at = len(ids)
        ids += [*encoded.ids[:room], _SEP]
        types += [1] * (len(ids) - at)
        slots.append(Slot(at, len(ids) - 1, spans))
    return ChangeInput(ids, types, 1 + len(first), slots)


def focus(text: str, others: Sequence[str], tokens: int) -> tuple[int, str]:
    """Returns (start, part) of a text that is too long: the sentences in a row that share most words with others."""
    limit = tokens * _MAX_CHARS_OF_TOKEN
    if len(text) <= limit:
        return 0, text
    spans = memory_sentence_spans(text)
    words = set().union(*(stem_words(content_words(other)) for other in others)) if others else set()
    shared = [len(stem_words(content_words(text[a:b])) & words) for a, b in spans]
    best, best_sum = (0, min(limit, len(text))), -1
    for first, (a, _) in enumerate(spans):
        end, total = a, 0
        for (_, b), n in zip(spans[first:], shared[first:], strict=True):
            if b - a > limit and end > a:
                break
            end, total = b, total + n
        if total > best_sum:
            best, best_sum = (a, min(end, a + limit)), total
    return best[0], text[best[0] : best[1]]


def _named(name: str) -> str:
    return f"{name[:_MAX_NAME_CHARS]}: " if name else ""


def _gap(older: dt.datetime | None, newer: dt.datetime | None) -> str:
    """Returns how long before the newer statement an older one was made, in words; days are those of their clocks."""
    if older is None or newer is None:
        return ""
    return f"({gap_words((newer.date() - older.date()).days)}) "


def gap_words(days: int) -> str:
    """Returns a number of days in words: `same day`, `3 days before`, `2 months before`."""
    if days <= 0:
        return "same day"
    if days == 1:
        return "a day before"
    for limit, unit, length in ((14, "days", 1.0), (60, "weeks", 7.0), (730, "months", 30.4)):
        if days < limit:
            return f"{round(days / length)} {unit} before"
    return f"{round(days / 365.25)} years before"


# Which part of an older statement a newer one ends: whole clauses, by the words that the encoder reads as outdated.

MIN_OUTDATED = 0.6
"""Mean probability of a clause's words from which it is outdated."""
MIN_DEPENDENT = 0.4
"""The same for a clause that states nothing alone, where another one of its sentence is outdated."""

OF_LIKELIEST, MARGIN = 0.85, 0.3
"""A clause also is outdated from this share of the likeliest clause's log odds on, less the margin."""
MAX_LEFT = 2
"""A rest of no more words states nothing: `[…] and eleven.`"""

_WORD = re.compile(r"[^\W\d_]+")
_FINITE = frozenset({"VBD", "VBP", "VBZ", "MD"})
_SUBJECTS = frozenset({"nsubj", "nsubjpass", "expl", "csubj"})

Span: TypeAlias = tuple[int, int]
Words: TypeAlias = Sequence[tuple[Span, float]]
"""(start, end) of the words of a text, and the probability that each is outdated."""


def outdated_part(text: str, words: Words) -> tuple[Span, ...]:
    """Returns the spans of the clauses that are outdated; none where that is all of the text.

    The likeliest clause is outdated where none is likely enough: that something ends is decided already. All of the
    text is outdated with the only verb in it: `third floor, no lift` states nothing without `We rent a flat`.

    Args:
        text: of the older statement.
        words: of it, as `ChangeReading` has them.
    """
    clauses = [(clause, mean) for clause in clause_spans(text) if (mean := _mean(clause, words)) is not None]
    if len(clauses) < 2:
        return ()
    likeliest = max(mean for _, mean in clauses)
    least = min(MIN_OUTDATED, likeliest, float(expit(OF_LIKELIEST * logit(likeliest) - MARGIN)))
    ended = [clause for clause, mean in clauses if mean >= least]
    sentences = [s for s in memory_sentence_spans(text) if any(_overlap(s, clause) for clause in ended)]
    beside = [c for c, mean in clauses if mean >= MIN_DEPENDENT and any(_overlap(s, c) for s in sentences)]
    part = merge_spans([*ended, *_without_statement(text, beside)])
    edges = [0, *(at for span in part for at in span), len(text)]
    rest = " ".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    if len(_WORD.findall(rest)) <= MAX_LEFT or _has_all_verbs(text, part, rest):
        return ()
    return tuple(part)


def _without_statement(text: str, clauses: Sequence[Span]) -> list[Span]:
    """Returns the clauses that have no finite verb with a subject."""
    parses = parse_texts([text[start:end] for start, end in clauses])
    return [
        clause
        for clause, parse in zip(clauses, parses, strict=True)
        if _FINITE.isdisjoint(parse.tags) or _SUBJECTS.isdisjoint(parse.deps)
    ]


def _has_all_verbs(text: str, part: Sequence[Span], rest: str) -> bool:
    """Returns whether there are finite verbs in a part of a text, and none in the rest."""
    of_part, of_rest = parse_texts([" ".join(text[start:end] for start, end in part), rest])
    return not _FINITE.isdisjoint(of_part.tags) and _FINITE.isdisjoint(of_rest.tags)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _mean(clause: Span, words: Words) -> float | None:
    inside = [p for span, p in words if _overlap(span, clause)]
    return sum(inside) / len(inside) if inside else None


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
    """The encoder; it is opened when it first reads, for the judge is large, and has often nothing to read.

    Attributes:
        path: of the ONNX model; `.gz` is what it says.
        without: see `open_graph`.
    """

    path: Path
    without: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Names the weights.

        Raises:
            ComponentFailed: the file is missing.
        """
        try:
            return hash_of_file(self.path)[:16]
        except OSError:
            raise self._unreadable from None

    def read(
        self, questions: Sequence[ChangeQuestion], advance: Callable[[int], None] = lambda n: None
    ) -> list[ChangeReading]:
        """Returns what is read of each question, in order.

        Args:
            questions: each has at least one older statement.
            advance: is called with the number of older statements read.
        """
        inputs = [build_input(tokenizer(), *question) for question in questions]
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
        try:
            stored = self.path.read_bytes()
            graph = gzip.decompress(stored) if self.path.suffix == ".gz" else stored
        except (OSError, EOFError, zlib.error):
            raise self._unreadable from None
        return open_graph(graph, "change encoder: not an ONNX model", self.without)

    @property
    def _unreadable(self) -> ComponentFailed:
        return ComponentFailed(f"changes: {self.path.name} cannot be read; install palimpsest-memory again")


@lru_cache(maxsize=2)
def shipped_encoder(file: str) -> ChangeEncoder:
    """Returns an encoder that comes with Palimpsest.

    Args:
        file: CHOOSER_FILE or JUDGE_FILE.
    """
    # The judge keeps them: last digits decide some of its pairs, and without them it retired one more golden pair.
    return ChangeEncoder(SHIPPED / file, SLOW_FUSIONS if file == CHOOSER_FILE else ())
