"""Pairs made ready for the offline labeler: what the rules say, the parts to compare, the features of those."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from palimpsest.relations.classify.features.pair_features import pair_features, pair_words
from palimpsest.relations.classify.features.parse import MAX_PARSED_CHARACTERS, Parse, parse_texts
from palimpsest.relations.classify.label_types import LabelPair
from palimpsest.relations.classify.rules.apply_rules import judge
from palimpsest.relations.classify.rules.facts import Sentence, read_sentences
from palimpsest.relations.classify.rules.partial_updates import takes_more_along, touched
from palimpsest.relations.classify.rules.reading import Reading, Verdict
from palimpsest.text.words import content_words

Span = tuple[int, int]
_PARSED_AT_ONCE = 4096
_PARSES_KEPT = 50_000


@dataclass(frozen=True)
class PreparedPair:
    """A pair as read: the rules' verdict, and the span of each text that is compared (all of a short one).

    `shared` is the share of the content words of the text with fewer of them that the other has too. `more` tells that
    the older memory states something beside what the newer one has to do with, `asks` that this is a question.
    """

    pair: LabelPair
    verdict: Verdict
    newer: Span
    older: Span
    shared: float
    more: bool = False
    asks: bool = False

    @property
    def texts(self) -> tuple[str, str]:
        """What is compared: (older, newer)."""
        return self.pair.older[slice(*self.older)], self.pair.newer[slice(*self.newer)]

    @property
    def share_of_older(self) -> float:
        """How much of the older memory the compared span is."""
        return (self.older[1] - self.older[0]) / max(1, len(self.pair.older))


def prepare_pair(pair: LabelPair) -> PreparedPair:
    """Reads a pair by rule. Of a text over 1,200 characters only the sentence that has most to do is compared."""
    newer = _read(pair.newer, pair.newer_speaker, pair.newer_context)
    older = _read(pair.older, pair.older_speaker, pair.older_context)
    verdict = judge(newer, older, pair.order, pair.by_place)
    a, b = (0, len(pair.newer)), (0, len(pair.older))
    if max(a[1], b[1]) > MAX_PARSED_CHARACTERS:
        a, b = _closest(newer, older, a[1] > MAX_PARSED_CHARACTERS, b[1] > MAX_PARSED_CHARACTERS)
    fewer = max(1, min(len(newer.stems), len(older.stems)))
    shared = len(newer.stems & older.stems) / fewer
    asks = bool(older.sentences) and touched(newer, older).question
    return PreparedPair(pair, verdict, a, b, shared, takes_more_along(newer, older), asks)


@lru_cache(maxsize=65_536)
def _read(text: str, speaker: str | None, context: str) -> Reading:
    return Reading(text, read_sentences(text, speaker), content_words(text), content_words(context), context)


def _closest(newer: Reading, older: Reading, long_newer: bool, long_older: bool) -> tuple[Span, Span]:
    news = newer.sentences if long_newer else ()
    olds = older.sentences if long_older else ()
    best: tuple[float, Span, Span] = (-1.0, (0, len(newer.text)), (0, len(older.text)))
    for n in news or (None,):
        for o in olds or (None,):
            a = n.content if n else newer.content
            b = o.content if o else older.content
            score = len(a & b) / max(1, len(a | b)) ** 0.5
            if score > best[0]:
                best = (score, _span(n, newer.text), _span(o, older.text))
    return best[1], best[2]


def _span(sentence: Sentence | None, text: str) -> Span:
    return (sentence.start, sentence.end) if sentence else (0, len(text))


@dataclass(frozen=True)
class FeatureTable:
    """The trained half's input: named feature rows, and each pair's words."""

    names: tuple[str, ...]
    rows: np.ndarray
    words: list[frozenset[str]]


def compute_features(pairs: Sequence[PreparedPair]) -> FeatureTable:
    """Returns the features of read pairs; every text is parsed once."""
    parses = _Parses()
    names: tuple[str, ...] = ()
    rows: list[list[float]] = []
    words: list[frozenset[str]] = []
    for start in range(0, len(pairs), _PARSED_AT_ONCE):
        block = pairs[start : start + _PARSED_AT_ONCE]
        parses.add(t for p in block for t in p.texts)
        for p in block:
            older, newer = (parses[t] for t in p.texts)
            same_day = p.pair.order is not None and p.pair.newer_at.date() == p.pair.older_at.date()  # type: ignore[union-attr]
            found = pair_features(older, newer, p.pair.order, same_day, p.verdict)
            names = names or tuple(found)
            rows.append(list(found.values()))
            words.append(pair_words(older, newer))
    return FeatureTable(names, np.array(rows, np.float32).reshape(len(rows), len(names)), words)


class _Parses:
    """Parses by text: as many as are wanted again soon."""

    def __init__(self) -> None:
        self._known: dict[str, Parse] = {}

    def add(self, texts: Iterable[str]) -> None:
        wanted = set(texts)
        if len(self._known) > _PARSES_KEPT:
            self._known = {t: p for t, p in self._known.items() if t in wanted}
        todo = sorted(wanted - self._known.keys())
        self._known.update(zip(todo, parse_texts(todo), strict=True))

    def __getitem__(self, text: str) -> Parse:
        return self._known[text]


def evidence_of(read: PreparedPair, **more: Any) -> dict[str, object]:
    """Returns evidence that names the compared spans."""
    return {"newer": list(read.newer), "older": list(read.older), **more}
