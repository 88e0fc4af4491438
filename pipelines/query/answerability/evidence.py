"""What the best results hold of a question, as numbers: its names, its words or words like them, its answer's type.

Everything comes from the texts of the results and from how many memories of the scopes have each term, so that the
numbers are the same over every backend and with every embedder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.answerability.question_form import SPECIFIC, YEAR, QuestionForm, name_forms
from palimpsest.query.answerability.read_sentences import read_sentences, word_terms
from palimpsest.query.request.types import Memory

TOP = 5  # results that are read
_NEARLY = 0.8  # of what the best sentence has
_NAME_WEIGHT = 5.0  # of a name at least


@dataclass(frozen=True)
class Evidence:
    """Numbers that speak for and against an answer. A word's weight is higher, the fewer memories have it.

    The best sentences are as many as the question has steps: the one that fits the question best, and those that add
    most to it.

    Attributes:
        out_of_reach: names, ids and years that no memory of the scopes has, at most 2.
        year_apart: 1 where a year of the question is neither in the best sentences nor that of their memories.
        points_back: 1 where the question refers to something that it does not name, and 1 more where it asks for what
            was before something.
        unseen_nouns: nouns that no memory has, less by how like they are to a word of the results.
        unseen_words: the same of other words.
        names_best: share of the weight of the question's names in the best sentences.
        words_best: the same of its other words; one that is only like them counts by its likeness.
        lacking_best: weight of all that these sentences lack.
        no_type_near: 1 where no sentence that fits nearly as well as the best one has something of the answer's type.
        no_specific_type: the same, where the type is one that few texts have by chance.
        no_type_within: how much less of a question of one step is in a sentence that has something of the answer's type
            than in the sentence that has most of it, adjacent sentences left out.
        steps: how many statements it takes to answer, less one.
    """

    out_of_reach: float = 0.0
    year_apart: float = 0.0
    points_back: float = 0.0
    unseen_nouns: float = 0.0
    unseen_words: float = 0.0
    names_best: float = 0.0
    words_best: float = 0.0
    lacking_best: float = 0.0
    no_type_near: float = 0.0
    no_specific_type: float = 0.0
    no_type_within: float = 0.0
    steps: float = 0.0

    def to_dict(self) -> dict[str, float]:
        """Returns the numbers by name."""
        return dict(vars(self))


def gather_evidence(
    question: QuestionForm, memories: Sequence[Memory], frequency: Mapping[str, int], size: int
) -> Evidence:
    """Returns what the best results hold of a question.

    Args:
        question: the question.
        memories: the results, best first; the first five are read.
        frequency: by each term of the question, how many memories of the scopes that were searched have it.
        size: how many memories these scopes have.
    """
    question_words = (*question.names, *question.words)
    best_results = memories[:TOP]
    read = read_sentences(question, question_words, best_results)
    back, has_type = float(question.points_back or question.is_bare) + question.asks_before, read.has_type
    if not question_words or not len(has_type):
        return Evidence(
            year_apart=float(bool(question.years)),
            points_back=back,
            names_best=1.0,
            words_best=1.0,
            no_type_near=float(not has_type.any()),
        )
    is_name = np.arange(len(question_words)) < len(question.names)
    known = np.array([_known(w, frequency, size) for w in question_words], np.float64)
    weight = np.log1p(size / (1.0 + known))
    weight[is_name] = np.maximum(weight[is_name], _NAME_WEIGHT)
    covered = read.fits @ weight
    best = read.best(weight, question.steps)
    found = read.fits[best].max(axis=0)
    near = bool((has_type & (covered >= _NEARLY * covered.max())).any())
    within = read.within @ weight
    is_checked = bool(question.answer) and question.steps == 1
    unseen, noun = known == 0, np.array([w in question.nouns for w in question_words])
    absent = unseen * (1.0 - read.fits.max(axis=0))
    return Evidence(
        out_of_reach=min(2.0, float((unseen & is_name).sum())),
        year_apart=float(_is_apart(question, question_words, found, [best_results[read.memory[i]] for i in best])),
        points_back=back,
        unseen_nouns=float(absent[noun & ~is_name].sum()),
        unseen_words=float(absent[~noun & ~is_name].sum()),
        names_best=_share(found, weight, is_name),
        words_best=_share(found, weight, ~is_name),
        lacking_best=float((1.0 - found) @ weight),
        no_type_near=float(not near),
        no_specific_type=float(not near and question.answer in SPECIFIC),
        no_type_within=float(within.max() - within[has_type].max(initial=0.0)) if is_checked else 0.0,
        steps=question.steps - 1.0,
    )


def _known(word: str, frequency: Mapping[str, int], size: int) -> int:
    """Returns how many memories have a word, or a name of which it is the plural."""
    return max(min((frequency.get(t, 0) for t in word_terms(f)), default=size) for f in name_forms(word))


def _is_apart(
    question: QuestionForm, question_words: tuple[str, ...], found: np.ndarray, best: Sequence[Memory]
) -> bool:
    """Returns whether the best sentences are of another year than the question: one that it names, or this one."""
    observed = {str(m.observed_at.year) for m in best if m.observed_at}
    stated = YEAR.findall(best[0].text)
    if question.asks_now and observed and stated and max(stated) < min(observed):
        return True
    return any(
        found[i] < _NEARLY and question_words[i] not in observed
        for i, w in enumerate(question_words)
        if w in question.years
    )


def _share(fits: np.ndarray, weight: np.ndarray, which: np.ndarray) -> float:
    return float((fits * weight)[which].sum() / weight[which].sum()) if which.any() else 1.0
