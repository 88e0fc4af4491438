"""How many questions without an answer could be turned away, while hardly any with an answer is."""

from collections.abc import Mapping

MAX_LOST = 0.02
ABSTENTION = "abstention recall at <= 2 % lost"


def caught_questions(probabilities: Mapping[str, float], unanswerable: frozenset[str]) -> dict[str, float]:
    """Returns, for each unanswerable question, 1.0 where its probability of an answer is below the threshold.

    The threshold is the highest below which at most 2 % of the answerable questions are. Nothing is returned where one
    of the two kinds is missing.

    Args:
        probabilities: of an answer, of each question.
        unanswerable: ids of the questions without an answer.
    """
    answerable = sorted(p for q, p in probabilities.items() if q not in unanswerable)
    judged = sorted(unanswerable & probabilities.keys())
    if not answerable or not judged:
        return {}
    threshold = answerable[int(MAX_LOST * len(answerable))]
    return {q: float(probabilities[q] < threshold) for q in judged}
