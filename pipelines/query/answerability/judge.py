"""Judges the results of a search: do they hold an answer?"""

from collections import Counter
from collections.abc import Sequence

from palimpsest.query.answerability.evidence import gather_evidence
from palimpsest.query.answerability.model import Answerability, answerability_model
from palimpsest.query.answerability.question_form import QuestionForm, name_forms
from palimpsest.query.answerability.read_sentences import word_terms
from palimpsest.query.request.types import Memory
from palimpsest.query.scope.scope_query import ScopeQuery


def judge_results(text: str, queries: Sequence[ScopeQuery], memories: Sequence[Memory]) -> Answerability:
    """Returns the probability that the results hold an answer to the question.

    Args:
        text: the question.
        queries: the query of each scope that was searched.
        memories: the results, best first.
    """
    if not memories:
        return answerability_model().judge(None)
    question = QuestionForm.of(text)
    frequency, size = _frequencies(queries, question)
    return answerability_model().judge(gather_evidence(question, memories, frequency, size))


def _frequencies(queries: Sequence[ScopeQuery], question: QuestionForm) -> tuple[Counter[str], int]:
    """Returns how many candidates have each term of the question, or of its names, and how many candidates there are.

    A scope too large for a view counts as one memory that has every term: of what it lacks nothing is known.
    """
    frequency, size = Counter[str](), 0
    names = {term for name in question.names for form in name_forms(name) for term in word_terms(form)}
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
    return frequency, size
