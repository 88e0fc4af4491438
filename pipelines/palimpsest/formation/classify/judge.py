"""Which sentences form an item, by the model and by what rules say of the sentence."""

from dataclasses import dataclass

import numpy as np

from palimpsest.formation.classify.sentence_model import SENTENCE_CLASSES
from palimpsest.formation.item import Kind

STATED_BY_RULES = 0.6
"""The least probability that a sentence states a fact or a preference where rules find a fact."""
STATED_ALONE = 0.75
"""The same where rules find nothing."""
OTHER_ALONE = 0.6
"""The least probability of a decision, a solution or an open question that rules do not find."""

_OTHERS: tuple[Kind, ...] = ("decision", "solution", "gap")


@dataclass(frozen=True)
class Judgment:
    """What the model makes of one sentence.

    Attributes:
        probability: of each class of SENTENCE_CLASSES.
    """

    probability: dict[str, float]

    @classmethod
    def of(cls, row: np.ndarray) -> "Judgment":
        """Makes it of a row of probabilities."""
        return cls(dict(zip(SENTENCE_CLASSES, row.tolist(), strict=True)))

    def decide(self, by_rules: Kind | None) -> Kind | None:
        """Returns the kind of item that the sentence forms; None where it forms nothing.

        What rules find of preferences, decisions, solutions and open questions is surer than the model; of the facts
        that they find it leaves half out. It finds others by itself.

        Args:
            by_rules: the kind that rules find.
        """
        if by_rules not in (None, "fact"):
            return by_rules
        fact, preference = self.probability["fact"], self.probability["preference"]
        if fact + preference >= (STATED_BY_RULES if by_rules == "fact" else STATED_ALONE):
            return "fact" if fact >= preference else "preference"
        best = max(_OTHERS, key=lambda kind: (self.probability[kind], -_OTHERS.index(kind)))
        return best if self.probability[best] >= OTHER_ALONE else None
