"""How far each sentence of the results has each name and word of a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from palimpsest.query.answerability.lexicon import case_likeness
from palimpsest.query.answerability.question_form import TOKEN, QuestionForm, name_forms
from palimpsest.query.answerability.word_vectors import similarities
from palimpsest.query.request.types import Memory
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.stopwords import SEARCH_STOPWORDS
from palimpsest.text.terms import terms

_MAX_SENTENCES = 24  # of all results
_MAX_CHARS = 4_000  # of a result
_TITLE, _BESIDE = 0.9, 0.7  # what a word counts that is in the title, heading or speaker, or in an adjacent sentence
_UNLIKE, _ALIKE = 0.3, 0.85  # cosines of words that count nothing and all


@dataclass(frozen=True)
class Sentences:
    """The sentences of the results, and how far each has each name and word of the question, from 0 to 1.

    Attributes:
        fits: what is in an adjacent sentence, or in the title, counts less; shape (sentences, words of the question).
        within: without adjacent sentences.
        has_type: whether it has something of the answer's type.
        memory: the place of its memory among the results.
    """

    fits: np.ndarray
    within: np.ndarray
    has_type: np.ndarray
    memory: np.ndarray

    def best(self, weight: np.ndarray, steps: int) -> list[int]:
        """Returns the sentence that fits best, and those that add most to it, one for each step."""
        found, out = np.zeros(len(weight)), list[int]()
        for _ in range(steps):
            out.append(int((np.maximum(self.fits, found) @ weight).argmax()))
            found = np.maximum(found, self.fits[out[-1]])
        return out


def read_sentences(question: QuestionForm, question_words: tuple[str, ...], memories: Sequence[Memory]) -> Sentences:
    """Reads the first sentences of the results.

    Args:
        question: its answer's type is looked for.
        question_words: its names, then its other words.
        memories: the results, best first.
    """
    texts, memory = list[str](), list[int]()
    for at, found in enumerate(memories):
        if len(texts) == _MAX_SENTENCES:
            break
        text = found.text[:_MAX_CHARS]
        spans = memory_sentence_spans(text)[: _MAX_SENTENCES - len(texts)]
        texts += [text[a:b] for a, b in spans]
        memory += [at] * len(spans)
    titles = [" ".join(filter(None, (m.document_title, m.heading, m.speaker))) for m in memories]
    of = np.array(memory, int)
    rows = _rows(question_words, len(question.names), [*titles, *texts])
    own = rows[len(titles) :]
    within = np.maximum(own, _TITLE * rows[of]) if len(of) else own
    fits = within.copy()
    if len(of) > 1:
        same = (of[1:] == of[:-1])[:, None]
        np.maximum(fits[1:], _BESIDE * own[:-1] * same, out=fits[1:])
        np.maximum(fits[:-1], _BESIDE * own[1:] * same, out=fits[:-1])
    return Sentences(fits, within, np.array([question.is_answered_by(t) for t in texts], bool), of)


def _rows(question_words: tuple[str, ...], names: int, texts: Sequence[str]) -> np.ndarray:
    """Returns how far each text has each word of the question, shape (len(texts), len(question_words))."""
    words = [_words(text) for text in texts]
    number = {word: i for i, word in enumerate(dict.fromkeys(w for found in words for w in found))}
    out = np.zeros((len(texts), len(question_words)))
    filled = [i for i, found in enumerate(words) if found]
    if not question_words or not filled:
        return out
    like = _likeness(question_words, names, list(number))
    at = np.array([number[w] for found in words for w in found])
    starts = np.cumsum([0, *(len(words[i]) for i in filled[:-1])])
    out[filled] = np.maximum.reduceat(like[:, at], starts, axis=1).T
    return out


def _likeness(question_words: tuple[str, ...], names: int, words: list[str]) -> np.ndarray:
    """Returns 1 for equal words, likeness for others and 0 for other names, shape (len(question_words), len(words))."""
    like = ((similarities(question_words, words) - _UNLIKE) / (_ALIKE - _UNLIKE)).clip(0.0, 1.0)
    like[:names] = 0.0
    for (at, other), value in case_likeness(question_words[names:], words).items():
        like[names + at, other] = max(like[names + at, other], value)
    of_term: dict[str, list[int]] = {}
    for i, word in enumerate(words):
        for term in word_terms(word):
            of_term.setdefault(term, []).append(i)
    for at, word in enumerate(question_words):
        for form in name_forms(word) if at < names else (word,):
            same = [set(of_term.get(term, ())) for term in word_terms(form)]
            if same:
                like[at, list(set.intersection(*same))] = 1.0
    return like


def _words(text: str) -> list[str]:
    return [w for w in dict.fromkeys(TOKEN.findall(text.lower())) if w not in SEARCH_STOPWORDS]


@lru_cache(maxsize=50_000)
def word_terms(word: str) -> frozenset[str]:
    """Returns the search terms of a word."""
    return frozenset(terms(word))
