"""Judges the results of a search: do they hold an answer?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.query.answerability.evidence import gather_evidence
from palimpsest.query.answerability.model import Answerability, answerability_model
from palimpsest.query.answerability.question_form import QuestionForm, name_forms
from palimpsest.query.answerability.read_sentences import word_terms
from palimpsest.query.request.types import Memory
from palimpsest.query.scope.scope_query import ScopeQuery


@dataclass(frozen=True)
class QuestionTerms:
    """A question and how common its words are.

    Attributes:
        form: the question.
        frequency: by each term of the question or of its names, how many candidates have it.
        size: how many candidates there are.
    """

    form: QuestionForm
    frequency: Mapping[str, int]
    size: int


def count_terms(text: str, queries: Sequence[ScopeQuery]) -> QuestionTerms:
    """Returns how many candidates have each term of the question.

    Called before the ranking, it loads the postings of all terms that either needs by one statement.
    A scope too large for a view counts as one memory that has every term: of what it lacks nothing is known.

    Args:
        text: the question.
        queries: the query of each scope to be searched.
    """
    form, frequency, size = QuestionForm.of(text), Counter[str](), 0
    names = {term for name in form.names for variant in name_forms(name) for term in word_terms(variant)}
    for query in queries:
        terms = sorted({*query.terms, *names})
        if (view := query.served.view()) is None:
            frequency.update(terms)
            size += 1
            continue
        allowed = view.allowed(query.filters)
        size += int(allowed.sum())
        for term, postings in zip(terms, view.postings(terms), strict=True):
            frequency[term] += int(allowed[postings.rows].sum())
    return QuestionTerms(form, frequency, size)


def judge_results(question: QuestionTerms, memories: Sequence[Memory]) -> Answerability:
    """Returns the probability that the results, best first, hold an answer to the question."""
    if not memories:
        return answerability_model().judge(None)
    return answerability_model().judge(gather_evidence(question.form, memories, question.frequency, question.size))
