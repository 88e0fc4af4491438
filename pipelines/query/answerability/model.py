"""From evidence to the probability that the results hold an answer: a logistic regression, stored as JSON.

data/models/answerability.json has its coefficients and figures; `python -m palimpsest.eval.abstention.train` writes it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from palimpsest.query.answerability.evidence import Evidence
from palimpsest.store.home import SHIPPED

MODEL_FILE = "models/answerability.json"
_REASONS = {
    "out_of_reach": "a name or id of the question is in no memory",
    "year_apart": "the best sentences are of another year",
    "points_back": "the question refers to something that it does not name",
    "unseen_nouns": "a noun of the question is in no memory",
    "unseen_words": "a word of the question is in no memory",
    "names_best": "the best sentences lack a name of the question",
    "words_best": "the best sentences lack words of the question",
    "lacking_best": "the best sentences lack much of the question",
    "no_type_near": "no sentence about it has anything of the type that the question wants",
    "no_specific_type": "no sentence about it has such a value",
    "no_type_within": "what has such a value lacks words of the question",
}
_SHOWN_REASONS = 2


@dataclass(frozen=True)
class Answerability:
    """Whether the first results hold an answer.

    Attributes:
        probability: that they do, as far as the evidence shows, 0 to 1.
        threshold: below it a search with `abstain` returns nothing.
        evidence: what the probability is made of; None where there was no result.
        against: what lowers the probability most, in words, the weightiest first.
    """

    probability: float
    threshold: float
    evidence: Evidence | None = None
    against: tuple[str, ...] = ()

    @property
    def is_answerable(self) -> bool:
        """Whether the probability reaches the threshold."""
        return self.probability >= self.threshold

    @property
    def text(self) -> str:
        """One line for people."""
        limit = f"{'at least' if self.is_answerable else 'below'} {self.threshold:.2f}"
        why = f": {'; '.join(self.against)}" if self.against and not self.is_answerable else ""
        return f"answerable with probability {self.probability:.2f}, {limit}{why}"


@dataclass(frozen=True)
class AnswerabilityModel:
    """A logistic regression over `Evidence`.

    Attributes:
        coefficients: what one unit of each number adds to the logit.
        typical: the mean of each number over answerable questions: only what is worse is named as a reason.
        intercept: the logit of evidence that is all 0.
        threshold: of the probability.
    """

    coefficients: Mapping[str, float]
    typical: Mapping[str, float]
    intercept: float
    threshold: float

    def judge(self, evidence: Evidence | None) -> Answerability:
        """Returns the probability of an answer; 0 where a search had no result."""
        if evidence is None:
            return Answerability(0.0, self.threshold, None, ("nothing was found",))
        values = evidence.to_dict()
        logit = self.intercept + sum(c * values.get(name, 0.0) for name, c in self.coefficients.items())
        probability = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))
        effects = {
            n: c * (values[n] - self.typical[n]) for n, c in self.coefficients.items() if n in _REASONS & values.keys()
        }
        against = sorted((effect, n) for n, effect in effects.items() if effect < 0)[:_SHOWN_REASONS]
        return Answerability(probability, self.threshold, evidence, tuple(_REASONS[n] for _, n in against))


@lru_cache(maxsize=1)
def answerability_model() -> AnswerabilityModel:
    """Returns the model that is shipped."""
    raw = json.loads((SHIPPED / MODEL_FILE).read_text(encoding="utf-8"))
    return AnswerabilityModel(raw["coefficients"], raw["typical"], raw["intercept"], raw["threshold"])
