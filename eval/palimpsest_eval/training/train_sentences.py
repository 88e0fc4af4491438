"""Trains the model that judges sentences: `python -m palimpsest_eval.training.train_sentences`, two minutes.

Writes data/models/sentence_model.npz, trained on the golden notes of `TRAINING_USERS`. With `--cross-validate` trains
on four fifths of the users at a time and prints the precision and recall of the items of the others: the thresholds of
`palimpsest.formation.sentence_model` were chosen by them.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from palimpsest.core.files import SHIPPED
from palimpsest.formation.rules import form_items, read_by_rules
from palimpsest.formation.sentence_model import (
    NONE,
    SENTENCE_CLASSES,
    SENTENCE_MODEL,
    SentenceFeatures,
    SentenceModel,
    read_sentence,
    write_sentence_model,
)
from palimpsest.formation.session import NoteItem
from palimpsest_eval.runs.measure_formation import FACTS, GoldenSession, Scores, read_half, read_user, score

# Sentences of conversations with the kinds of items that they form, from golden notes: what the model learns.

DIARY = "diary"
"""The development half of the diary's golden notes, among the users."""
MESSAGES = "messages"
"""Single messages without context, among the users."""
TRAINING_USERS = (
    DIARY,
    "dario",
    "hilde",
    "kwame",
    "messages",
    "noor",
    "priyanka",
    "ruth",
    "silvie",
    "teo",
    "tomasz",
    "yolanda",
)
"""Whose conversations train the model. Those of the diary's test half, and of Emeka, Petra and Yusuf do not."""

_OPTIONAL_WEIGHT = 0.5


@dataclass(frozen=True)
class Example:
    """A sentence with the class that is right, and how much it counts."""

    features: SentenceFeatures
    label: str
    weight: float = 1.0


def golden_notes(user: str) -> list[GoldenSession]:
    """Returns the sessions of a user with what should be formed of them."""
    if user == DIARY:
        return read_half("development")
    return read_user(user)


def sentence_examples(golden: Sequence[GoldenSession]) -> Iterator[Example]:
    """Yields each sentence of a person with its label; what a label calls optional shares its weight with none."""
    for expected, rules in zip(golden, read_by_rules([g.session for g in golden]), strict=True):
        for n, i in rules.places():
            start, end = rules.sentences[n][i].span
            found = rules.by_rules(n, i)
            features = read_sentence(expected.session, n, i, found.kind if found is not None else None)
            met = [g for g in expected.items if g.span[0] < end and start < g.span[1]]
            required = [g.kinds[0] for g in met if not g.is_optional]
            if required or not met:
                yield Example(features, required[0] if required else NONE)
                continue
            allowed = sorted({kind for g in met for kind in g.kinds} | {NONE})
            for label in allowed:
                yield Example(features, label, _OPTIONAL_WEIGHT / len(allowed))


C = 1.0
FOLDS = 5
_MIN_SENTENCES = 3  # that a sequence of words is in
_ITERATIONS = 300


def train(examples: Sequence[Example]) -> SentenceModel:
    """Returns the model of labeled sentences: multinomial logistic regression, l2."""
    from sklearn.linear_model import (
        LogisticRegression,
    )  # a second and a half, which readers of the golden notes need not

    counts = Counter(g for e in examples for g in set(e.features.ngrams))
    ngrams = tuple(sorted(g for g, n in counts.items() if n >= _MIN_SENTENCES))
    rarity = 1 + np.log((1 + len(examples)) / (1 + np.array([counts[g] for g in ngrams])))
    empty = np.zeros((0, 0))
    rows = csr_matrix(SentenceModel(ngrams, rarity, empty, empty).rows([e.features for e in examples]))
    labels = [SENTENCE_CLASSES.index(e.label) for e in examples]
    fitted = LogisticRegression(C=C, max_iter=_ITERATIONS).fit(rows, labels, [e.weight for e in examples])
    return SentenceModel(ngrams, rarity, fitted.coef_, fitted.intercept_)


def unseen_scores() -> Scores:
    """Returns the items of users whose conversations the model did not see, compared with the golden ones."""
    by_user = {user: golden_notes(user) for user in TRAINING_USERS}
    examples = {user: list(sentence_examples(golden)) for user, golden in by_user.items()}
    golden: list[GoldenSession] = []
    formed: list[list[NoteItem]] = []
    for fold in range(FOLDS):
        unseen = TRAINING_USERS[fold::FOLDS]
        model = train([e for user in TRAINING_USERS if user not in unseen for e in examples[user]])
        for user in unseen:
            if user == MESSAGES:  # written for what the others lack: easier, so not in the figures
                continue
            golden += by_user[user]
            formed += form_items([g.session for g in by_user[user]], model)
    return score(golden, formed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and writes the model, or prints figures of users that a model did not see; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the data folder")
    parser.add_argument("--cross-validate", action="store_true", help="print figures of unseen users")
    options = parser.parse_args(arguments)
    if not options.cross_validate:
        model = train([e for user in TRAINING_USERS for e in sentence_examples(golden_notes(user))])
        write_sentence_model(model, options.out / SENTENCE_MODEL)
        return 0
    scores = unseen_scores()
    for kinds in (FACTS, *((kind,) for kind in SENTENCE_CLASSES[:-1])):
        figures = f"precision {scores.precision(*kinds):.3f}, recall {scores.recall(*kinds):.3f}"
        sys.stdout.write(f"{' and '.join(kinds)}: {figures}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
