"""What the best results hold of a question, as numbers: its names, its words or words like them, its answer's type.

Everything comes from the texts of the results and from how many memories of the scopes have each term, so that the
numbers are the same over every backend and with every embedder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from palimpsest.query.answerability.question_form import SPECIFIC, TOKEN, QuestionForm
from palimpsest.query.answerability.word_vectors import similarities
from palimpsest.query.request.types import Memory
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.stopwords import SEARCH_STOPWORDS
from palimpsest.text.terms import terms

TOP = 5  # results that are read
_MAX_SENTENCES = 24  # of them all
_MAX_CHARS = 4_000  # of a result
_BESIDE = 0.9  # what a word counts that is in an adjacent sentence, or in the title
_NEARLY = 0.8  # of what the best sentence has


@dataclass(frozen=True)
class Evidence:
    """Numbers that speak for and against an answer. A word's weight is higher, the fewer memories have it.

    Attributes:
        out_of_reach: names, ids and years that no memory of the scopes has (at most 2), and one more each where no
            result is of the year that is asked about, where the question asks for what was before something, and where
            it points at something that it does not name.
        unseen_nouns: nouns that no memory has, less by how like they are to a word of the results.
        unseen_words: the same of other words.
        names_best: share of the weight of the question's names in the sentence that fits it best.
        words_best: the same of its other words; one that is only like them counts by its likeness.
        worst_best: weight of the word that this sentence lacks most.
        lacking_best: weight of all that this sentence lacks.
        no_type: 1 where no sentence has something of the answer's type.
        no_type_near: 1 where no sentence that fits nearly as well as the best one has something of it.
        no_specific_type: the same, where the type is one that few texts have by chance.
    """

    out_of_reach: float = 0.0
    unseen_nouns: float = 0.0
    unseen_words: float = 0.0
    names_best: float = 0.0
    words_best: float = 0.0
    worst_best: float = 0.0
    lacking_best: float = 0.0
    no_type: float = 0.0
    no_type_near: float = 0.0
    no_specific_type: float = 0.0

    def to_dict(self) -> dict[str, float]:
        """Returns the numbers by name."""
        return asdict(self)


def gather_evidence(
    question: QuestionForm, memories: Sequence[Memory], frequency: Mapping[str, int], size: int
) -> Evidence:
    """Returns what the best results hold of a question.

    Args:
        question: what is asked.
        memories: the results, best first; the first five are read.
        frequency: by each term of the question, how many memories of the scopes that were searched have it.
        size: how many memories these scopes have.
    """
    asked = (*question.names, *question.words)
    best_results = memories[:TOP]
    fits, has_type = _read_sentences(question, asked, best_results)
    no_year, before, bare = _lacks_year(question, best_results), question.asks_before, question.is_bare
    if not asked or not has_type:
        no_type = float(not any(has_type))
        return Evidence(out_of_reach=float(no_year + before + bare), no_type=no_type, no_type_near=no_type)
    is_name = np.arange(len(asked)) < len(question.names)
    known = np.array([min((frequency.get(t, 0) for t in _terms(w)), default=size) for w in asked], np.float64)
    weight = np.log1p(size / (1.0 + known))
    covered = fits @ weight
    best, together = fits[int(np.argmax(covered))], fits.max(axis=0)
    near = any(t and c >= _NEARLY * covered.max() for t, c in zip(has_type, covered.tolist(), strict=True))
    unseen, noun = known == 0, np.array([w in question.nouns for w in asked])
    absent = unseen * (1.0 - together)
    return Evidence(
        out_of_reach=min(2.0, float((unseen & is_name).sum())) + no_year + before + bare,
        unseen_nouns=float(absent[noun & ~is_name].sum()),
        unseen_words=float(absent[~noun & ~is_name].sum()),
        names_best=_share(best, weight, is_name),
        words_best=_share(best, weight, ~is_name),
        worst_best=float(((1.0 - best) * weight).max()),
        lacking_best=float((1.0 - best) @ weight),
        no_type=float(not any(has_type)),
        no_type_near=float(not near),
        no_specific_type=float(not near and question.answer in SPECIFIC),
    )


def _share(fits: np.ndarray, weight: np.ndarray, which: np.ndarray) -> float:
    return float((fits * weight)[which].sum() / weight[which].sum()) if which.any() else 1.0


def _lacks_year(question: QuestionForm, memories: Sequence[Memory]) -> bool:
    observed = {str(m.observed_at.year) for m in memories if m.observed_at}
    return any(y not in observed and not any(y in m.text for m in memories) for y in question.years)


def _read_sentences(
    question: QuestionForm, asked: tuple[str, ...], memories: Sequence[Memory]
) -> tuple[np.ndarray, list[bool]]:
    """Returns how far each sentence holds each name and word that is asked, and which have the answer's type.

    What is in the sentences beside it, or in the title, heading or speaker, counts a little less.

    Returns:
        Values from 0 to 1, shape (sentences, asked), and a truth value a sentence.
    """
    parts: list[list[str]] = []
    for memory in memories:
        text = memory.text[:_MAX_CHARS]
        left = _MAX_SENTENCES - sum(map(len, parts))
        parts.append([text[a:b] for a, b in memory_sentence_spans(text)[:left]] if left > 0 else [])
    titles = [" ".join(filter(None, (m.document_title, m.heading, m.speaker))) for m in memories]
    words = [_words(text) for text in (*titles, *(p for texts in parts for p in texts))]
    number = {word: i for i, word in enumerate(sorted({w for found in words for w in found}))}
    fits = _likeness(asked, len(question.names), list(number))
    rows = [fits[:, [number[w] for w in found]].max(axis=1) if found else np.zeros(len(asked)) for found in words]
    out: list[np.ndarray] = []
    at = len(titles)
    for title, texts in zip(rows, parts, strict=False):
        held = rows[at : at + len(texts)]
        at += len(texts)
        for i, own in enumerate(held):
            beside = (*held[max(i - 1, 0) : i], *held[i + 1 : i + 2], title)
            out.append(np.maximum(own, _BESIDE * np.maximum.reduce(beside)))
    return np.array(out).reshape(len(out), len(asked)), [question.is_answered_by(p) for texts in parts for p in texts]


def _likeness(asked: tuple[str, ...], names: int, words: list[str]) -> np.ndarray:
    """Returns 1 for equal words, likeness for others and 0 for other names, shape (len(asked), len(words))."""
    like = similarities(asked, words).clip(0.0, 1.0)
    like[:names] = 0.0
    of_term: dict[str, list[int]] = {}
    for i, word in enumerate(words):
        for term in _terms(word):
            of_term.setdefault(term, []).append(i)
    for at, word in enumerate(asked):
        same = [set(of_term.get(term, ())) for term in _terms(word)]
        if same:
            like[at, list(set.intersection(*same))] = 1.0
    return like


def _words(text: str) -> list[str]:
    return [w for w in dict.fromkeys(m.group().lower() for m in TOKEN.finditer(text)) if w not in SEARCH_STOPWORDS]


@lru_cache(maxsize=50_000)
def _terms(word: str) -> frozenset[str]:
    return frozenset(terms(word))
