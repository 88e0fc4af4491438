"""Pairs prepared for the offline labeler: the verdict of the rules, the spans to compare, the features of those."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from palimpsest.core.batches.local_processes import map_chunks
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.relations.classify.encoder.pair_encoder import ENCODER_CLASSES
from palimpsest.relations.classify.features.pair_features import pair_features, pair_words
from palimpsest.relations.classify.features.parse import MAX_PARSED_CHARACTERS, parse_texts
from palimpsest.relations.classify.label_types import LabelPair
from palimpsest.relations.classify.rules.apply_rules import apply_rules
from palimpsest.relations.classify.rules.partial_updates import loses_statements, most_related_sentence
from palimpsest.relations.classify.rules.reading import Reading, Span, Verdict, read_memory
from palimpsest.relations.classify.rules.sentences import Sentence
from palimpsest.relations.classify.statements.compare_statements import compare_statements

EncodePairs: TypeAlias = Callable[[Sequence[tuple[str, str]]], np.ndarray]
"""From (older, newer) texts: probabilities of ENCODER_CLASSES, shape (n, 6)."""

MEANING = tuple(f"meaning_{name}" for name in ENCODER_CLASSES)
"""Names of the features that come from the pair encoder: the natural logarithms of its probabilities."""
_MIN_MEANING = 1e-4
_PAIRS_PER_CHUNK = 512


@dataclass(frozen=True)
class PreparedPair:
    """A pair as the rules read it.

    Attributes:
        pair: the pair.
        verdict: of the rules.
        newer, older: the span of each text that is compared (all of a short one).
        shared: share of the content words of the text with fewer of them that the other text has too.
        loses_statements: the older memory states more than the sentence most related to the newer one.
        is_question: that sentence is a question.
    """

    pair: LabelPair
    verdict: Verdict
    newer: Span
    older: Span
    shared: float
    loses_statements: bool = False
    is_question: bool = False

    @property
    def texts(self) -> tuple[str, str]:
        """What is compared: (older, newer)."""
        return self.pair.older[slice(*self.older)], self.pair.newer[slice(*self.newer)]

    @property
    def share_of_older(self) -> float:
        """Which share of the older memory the compared span is."""
        return (self.older[1] - self.older[0]) / max(1, len(self.pair.older))

    def evidence(self, **more: JsonValue) -> JsonObject:
        """Returns evidence that names the compared spans."""
        return {"newer": list(self.newer), "older": list(self.older), **more}


def prepare_pair(pair: LabelPair) -> PreparedPair:
    """Applies the rules to a pair; of a text over 1,200 characters only the most related sentence is compared."""
    newer = _read(pair.newer, pair.newer_speaker, pair.newer_context)
    older = _read(pair.older, pair.older_speaker, pair.older_context)
    verdict = apply_rules(newer, older, pair.order, pair.by_position)
    newer_span, older_span = (0, len(pair.newer)), (0, len(pair.older))
    if max(newer_span[1], older_span[1]) > MAX_PARSED_CHARACTERS:
        newer_span, older_span = _closest_sentences(newer, older)
    fewer = max(1, min(len(newer.stems), len(older.stems)))
    return PreparedPair(
        pair,
        verdict,
        newer_span,
        older_span,
        shared=len(newer.stems & older.stems) / fewer,
        loses_statements=loses_statements(newer, older),
        is_question=bool(older.sentences) and most_related_sentence(newer, older).question,
    )


_read = lru_cache(maxsize=8_192)(read_memory)


def prepare_pairs(pairs: Sequence[LabelPair]) -> Iterator[list[PreparedPair]]:
    """Yields what `prepare_pair` returns of each pair, some at a time, in order."""
    left = iter(pairs)
    for part in map_chunks(_prepare_chunk, pairs, _PAIRS_PER_CHUNK, "relations"):
        # Another process returns copies of the texts.
        yield [replace(prepared, pair=pair) for prepared, pair in zip(part, left, strict=False)]


def _prepare_chunk(pairs: Sequence[LabelPair]) -> list[PreparedPair]:
    return [prepare_pair(p) for p in pairs]


def _closest_sentences(newer: Reading, older: Reading) -> tuple[Span, Span]:
    """Returns the spans with most words in common: of a long text a sentence, of a short one all of it."""
    best: tuple[float, Span, Span] = (-1.0, (0, len(newer.text)), (0, len(older.text)))
    for n in _units(newer):
        for o in _units(older):
            a = n.content if n else newer.content
            b = o.content if o else older.content
            score = len(a & b) / max(1, len(a | b)) ** 0.5
            if score > best[0]:
                best = (score, _span(n, newer.text), _span(o, older.text))
    return best[1], best[2]


def _units(reading: Reading) -> Sequence[Sentence | None]:
    return (reading.sentences if len(reading.text) > MAX_PARSED_CHARACTERS else ()) or (None,)


def _span(sentence: Sentence | None, text: str) -> Span:
    return sentence.span if sentence else (0, len(text))


@dataclass(frozen=True)
class FeatureTable:
    """The input of the model.

    Attributes:
        names: of the features.
        rows: one row for each pair, shape (n, len(names)) float32.
        words: of each pair, as `pair_words` gives them.
    """

    names: tuple[str, ...]
    rows: np.ndarray
    words: list[frozenset[str]]

    def named_rows(self) -> Iterator[dict[str, float]]:
        """Yields each row as a mapping from feature name to value."""
        return (dict(zip(self.names, row, strict=True)) for row in self.rows)


@dataclass(frozen=True)
class PreparedBatch:
    """Pairs as the rules read them; `model_rows` are the indexes of those that the model sees, `features` theirs."""

    pairs: list[PreparedPair]
    model_rows: list[int]
    features: FeatureTable


def compute_features(pairs: Sequence[PreparedPair], encode: EncodePairs) -> FeatureTable:
    """Returns the features of prepared pairs.

    Args:
        pairs: prepared pairs.
        encode: the pair encoder, or what it returned of pairs that it was not trained on.
    """
    names: tuple[str, ...] = ()
    rows = list[np.ndarray]()
    words: list[frozenset[str]] = []
    for found in map_chunks(_read_pairs, pairs, _PAIRS_PER_CHUNK, "relations"):
        names = names or found.names
        rows.append(found.rows)
        words += found.words
    meaning = np.log(np.maximum(encode([p.texts for p in pairs]), _MIN_MEANING))
    table = np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)
    return FeatureTable((*names, *MEANING), np.hstack([table, meaning.astype(np.float32)]), words)


class _PairReadings(NamedTuple):
    """What parses say of pairs: see FeatureTable."""

    names: tuple[str, ...]
    rows: np.ndarray
    words: list[frozenset[str]]


def _read_pairs(pairs: Sequence[PreparedPair]) -> _PairReadings:
    texts = sorted({text for p in pairs for text in p.texts})
    parses = dict(zip(texts, parse_texts(texts), strict=True))
    names: tuple[str, ...] = ()
    rows, words = list[list[float]](), list[frozenset[str]]()
    for p in pairs:
        older, newer = (parses[text] for text in p.texts)
        features = pair_features(older, newer, p.pair.order, p.pair.same_day, p.verdict)
        features |= compare_statements(older, newer)
        names = tuple(features)
        rows.append(list(features.values()))
        words.append(pair_words(older, newer))
    return _PairReadings(names, np.array(rows, np.float32), words)
