"""Which sentences form an item: their features, a linear model over them, and the judgement of both with the rules.

`palimpsest_eval.training.train_sentences` trains it; data/models/README.md is its card.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import SHIPPED, file_hash
from palimpsest.formation.session import SENTENCE_KINDS, Kind, Session

# Words by which rules know what a sentence is: a save, a preference, a decision, a solution, a problem, an answer.


def _cue(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


SAVE = _cue(
    r"(?:^|[,;.] )(?:(?:please|and|also|but|ok|okay),? ){0,20}"
    r"(?:remember|remind me|keep in mind|bear in mind|make a note|take a note|(?:do not|don't) forget|note|save)"
    r"(?: down)?,?(?: that|:) (?P<saved>.+)",
)

PREFERENCE_VERBS = frozenset(
    {"prefer", "love", "like", "enjoy", "adore", "hate", "detest", "dislike", "loathe", "despise", "favour", "favor"}
)
_WANT, _AND_NOT = r"\b(?:want|like|need)s? ", ", (?:not|no) "
# The last `want` before `, not` counts: no text is read again for each of them.
PREFERENCE = _cue(
    r"\b(?:would|'d) (?:much )?(?:rather|prefer)\b(?! to know)"
    r"|\b(?:can|could)(?:not|'t| not) (?:stand|bear|abide)\b"
    r"|\b(?:do|does)(?: not|n't) (?:care for|mind)\b"
    r"|\bnot (?:a|much of a|a big) fan of\b|\b(?:am|'m|is) (?:a|a big|a huge) fan of\b"
    r"|\b(?:fond|tired|sick) of\b|\bcrazy about\b|\bpartial to\b"
    r"|\bfavou?rites?\b"
    r"|\b(?:is|are|was) (?:best|better|fine) (?:for|with) (?:me|us)\b"
    r"|\b(?:would|will|'ll) (?:not|never) (?:touch|eat|drink|wear)\b|\bwon't (?:touch|eat|drink|wear)\b"
    r"|\b(?:only|never) (?:ever )?(?:eats?|drinks?|wears?|takes?)\b|\bwill only (?:eat|drink|wear)\b"
    rf"|{_WANT}.(?:(?!{_WANT}(?!{_AND_NOT})).)*?{_AND_NOT}",
)
NO_PREFERENCE = _cue(
    r"\b(?:would|'d) (?:like|love|hate)\b|\b(?:look|looks|looked|feel|feels|felt|sound|sounds|seem|seems) like\b",
)

DECISION = _cue(
    r"\b(?:i|we)(?: have|'ve)?(?: now| finally| all| both)? (?:decided|agreed|settled|resolved|opted|chose|chosen)\b"
    r"|\blet's (?:go with|go for|use|stick with|take|do)\b"
    r"|\bwe(?:'ll| will) (?:go with|go for|stick with|use|buy|take)\b"
    r"|^(?:agreed|settled|done|deal)[,:.] \w+ \w+"
    r"|\bit is (?:settled|decided)\b",
)
NO_DECISION = _cue(r"\b(?:not|n't|never) (?:yet )?(?:decided|agreed|settled)\b")

PROBLEM = _cue(
    r"\b(?:would not|wouldn't|does not|doesn't|did not|didn't|cannot|can't|will not|won't)"
    r" (?:\w+ )?(?:start|work|open|close|run|boot|load|print|connect|turn|build|log|respond)\b"
    r"|\b(?:jam(?:s|med)?|broke|broken|leak(?:s|ed|ing)?|drip(?:s|ped)?|crash(?:es|ed)?|fail(?:s|ed)?|stuck|error"
    r"|problem|issue|hiss(?:ed)?|squeak(?:s|ed)?|rattle[sd]?|lost pressure|stopped working|kept \w+ing|blocked|froze"
    r"|dead|bug|trouble|faulty)\b",
)
SOLUTION = _cue(
    r"\b(?:fixed|solved|resolved|cured|sorted out|sorted)\b|\bdid the trick\b|\bthat worked\b"
    r"|\b(?:now|again) (?:it )?(?:works?|runs?|closes?|opens?|starts?)\b"
    r"|\b(?:works?|runs?|closes?|opens?|starts?) (?:now|again|fine)\b|\bhelped in the end\b",
)
REFERS_BACK = _cue(r"\b(?:it|its|that|this|them|their)\b|\bdid the trick\b|\bhelped in the end\b")
UNSOLVED = _cue(r"\b(?:not|n't|never) (?:been )?(?:fixed|solved|resolved|work)")

NO_ANSWER = _cue(
    r"\b(?:no idea|not sure|no clue|who knows|cannot say|can't say|(?:do not|don't|did not) know|somebody|someone"
    r"|maybe|perhaps|thought (?:you|he|she|they)|good question|find out|let you know|look (?:it|that) up|wonder)\b",
)
REQUEST = _cue(
    r"^(?:\w+[,.] )?(?:can|could|would|will) you\b(?! know| tell| find out)|^(?:shall|should|may|can) (?:i|we)\b"
    r"|\bwhat do you (?:think|say)\b|^(?:how are you|really|right|is that so)\b",
)

UNREAL = _cue(
    r"^(?:if|should|were|had|suppose|imagine|perhaps|maybe) |\bif (?:i|it|he|she|we|they) (?:had|were|was|could)\b"
    r"|\b(?:i|we) (?:think|guess|suppose|wonder|hope|wish|doubt|believe|might|may|could|would|should|expect)\b"
    r"|\b(?:joke|joking|kidding)\b",
)
FIRST_PERSON = _cue(r"\b(?:i|we|my|our|mine)\b")
PRESENT_NAME = re.compile(r"(?:^|[.;,] |\band )(?:The |Our |My )?[A-Z][\w.']+(?: [A-Z][\w.]+)* ")
OPENING_WORD = re.compile(
    r"^(?:and|but|so|also|well|anyway|oh|yes|no|ok|okay|hey|hi|hello)\b[,.!]? +(?=\S)", re.IGNORECASE
)
OPENING_PRONOUN = _cue(r"(?:he|she|it|they|this|that|these|those|there)\b")


# What the model reads of a sentence: its words, cues in it and around it, and what rules say of it.

NGRAMS = 3
"""Words of the longest sequence that counts."""

_TURNS, _BEFORE_CHARS, _AFTER_CHARS = 2, 250, 200
_LONG, _SHORT = 30, 5  # words
_WORD = re.compile(r"[\w']+|[?!.,]")
_DIGITS = re.compile(r"\d+")
_IN_SENTENCE = (
    *(SAVE, PREFERENCE, NO_PREFERENCE, DECISION, NO_DECISION, PROBLEM, SOLUTION),
    *(REFERS_BACK, UNSOLVED, NO_ANSWER, REQUEST, UNREAL, FIRST_PERSON),
    OPENING_PRONOUN,
    *(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            r"\b(?:was|were|had|did|went|got|came|said|told|took|made|saw|\w+ed)\b",
            r"\b(?:will|'ll|going to|tonight|tomorrow|later|now)\b",
            r"\b(?:every|always|never|usually|each|daily|weekly|per)\b"
            r"|\bon (?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\ba (?:week|month|year|day)\b",
            r"\d",
            r"\b(?:please|don't|never)\b",
            r"\b(?:yesterday|today|this morning|last night|last week|just)\b",
            r"\b(?:my|our|his|her|their)\b",
            r"\b(?:is|are|has|have|lives?|works?)\b|'s\b|'re\b",
            r"\b(?:so|since then|ever since|turned out|it was|and now|no more|gone|works?|fine)\b",
            r"!",
        )
    ),
)


@dataclass(frozen=True)
class SentenceFeatures:
    """The features of one sentence.

    Attributes:
        ngrams: sequences of its words, in order, with repetitions; numbers are `0`.
        flags: the other features, each 0 to 1.
    """

    ngrams: tuple[str, ...]
    flags: tuple[float, ...]


def read_sentence(session: Session, n: int, i: int, by_rules: str | None) -> SentenceFeatures:
    """Returns the features of sentence `i` of turn `n`.

    Args:
        session: the session.
        n: number of the turn.
        i: number of the sentence in the turn.
        by_rules: the kind of item that rules form of it; None where they form none.
    """
    sentences = session.turns[n].sentences
    text, before, after = sentences[i].text, _before(session, n, i), _after(session, n, i)
    words = len(text.split())
    is_after_question = before.endswith("?")
    flags = (
        *(cue.search(text) is not None for cue in _IN_SENTENCE),
        *(by_rules == kind for kind in SENTENCE_KINDS),
        sentences[i].is_question,
        min(words, _LONG) / _LONG,
        words < _SHORT,
        is_after_question,
        is_after_question and "Assistant:" in before[-160:],
        i == 0,
        PROBLEM.search(before) is not None,
        NO_ANSWER.search(after) is not None,
        after.startswith("Assistant:"),
        "?" in after[:80],
        text[:1].islower(),
    )
    return SentenceFeatures(tuple(ngrams(text)), tuple(float(flag) for flag in flags))


def ngrams(text: str) -> list[str]:
    """Returns the sequences of one to three words and marks of a text, lower case, numbers as `0`."""
    words = _WORD.findall(_DIGITS.sub("0", text.lower()))
    return [" ".join(words[at : at + n]) for n in range(1, NGRAMS + 1) for at in range(len(words) - n + 1)]


def _before(session: Session, n: int, i: int) -> str:
    """Returns the end of what is said before a sentence, in its turn and in the turns before."""
    sentences = session.turns[n].sentences
    in_turn = (sentences[at].text for at in range(i - 1, -1, -1))
    earlier = (turn.line for turn in reversed(session.turns[max(0, n - _TURNS) : n]))
    nearest = _first(chain(in_turn, earlier), _BEFORE_CHARS)
    return " ".join(reversed(nearest))[-_BEFORE_CHARS:].strip()


def _after(session: Session, n: int, i: int) -> str:
    """Returns the beginning of what is said after a sentence, in its turn and in the turns after."""
    sentences = session.turns[n].sentences
    in_turn = (sentences[at].text for at in range(i + 1, len(sentences)))
    later = (turn.line for turn in session.turns[n + 1 : n + 1 + _TURNS])
    return " ".join(_first(chain(in_turn, later), _AFTER_CHARS))[:_AFTER_CHARS]


def _first(texts: Iterable[str], characters: int) -> list[str]:
    """Returns as many texts as have so many characters: a long turn is not read again for each of its sentences."""
    found: list[str] = []
    for text in texts:
        found.append(text)
        characters -= len(text)
        if characters <= 0:
            break
    return found


NONE = "none"
"""The class of a sentence that forms nothing."""
SENTENCE_CLASSES = (*SENTENCE_KINDS, NONE)
"""In the order of the probabilities."""
SENTENCE_MODEL = "models/sentence_model.npz"
WORDS_WEIGHT = 2.0
"""Length of the vector of words, next to the flags."""


@dataclass(frozen=True)
class SentenceModel:
    """The weights.

    Attributes:
        ngrams: sequences of words that count, sorted.
        rarity: of each of them.
        weights: of flags and sequences, shape (classes, flags + ngrams).
        intercept: shape (classes,).
    """

    ngrams: tuple[str, ...]
    rarity: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray

    @cached_property
    def _place(self) -> dict[str, int]:
        return {ngram: i for i, ngram in enumerate(self.ngrams)}

    def rows(self, sentences: Sequence[SentenceFeatures]) -> np.ndarray:
        """Returns the vectors of sentences, shape (len(sentences), flags + ngrams) float32."""
        out = np.zeros((len(sentences), len(sentences[0].flags) + len(self.ngrams) if sentences else 0), np.float32)
        for row, sentence in zip(out, sentences, strict=True):
            flags = len(sentence.flags)
            row[:flags] = sentence.flags
            counts = Counter(place for g in sentence.ngrams if (place := self._place.get(g)) is not None)
            if counts:
                at = np.array(sorted(counts))
                values = (1 + np.log([counts[a] for a in at.tolist()])) * self.rarity[at]
                row[flags + at] = WORDS_WEIGHT * values / np.linalg.norm(values)
        return out

    def predict(self, sentences: Sequence[SentenceFeatures]) -> np.ndarray:
        """Returns probabilities of SENTENCE_CLASSES, shape (len(sentences), 6), rounded to three decimals.

        A sentence's probabilities do not depend on the others.
        """
        out = np.zeros((len(sentences), len(SENTENCE_CLASSES)))
        for i, sentence in enumerate(sentences):
            scores = self.weights @ self.rows([sentence])[0] + self.intercept
            odds = np.exp(scores - scores.max())
            out[i] = odds / odds.sum()
        return np.round(out, 3)


def write_sentence_model(model: SentenceModel, path: Path) -> None:
    """Writes a model as arrays."""
    np.savez_compressed(
        path,
        ngrams=np.array(model.ngrams),
        rarity=model.rarity.astype(np.float32),
        weights=model.weights.astype(np.float32),
        intercept=model.intercept.astype(np.float32),
    )


@lru_cache(maxsize=1)
def sentence_model() -> SentenceModel:
    """Returns the model that comes with Palimpsest, read when it is first used.

    Raises:
        ComponentFailed: its file is missing or damaged.
    """
    try:
        with np.load(SHIPPED / SENTENCE_MODEL, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("rarity", "weights", "intercept")}
            return SentenceModel(tuple(file["ngrams"].tolist()), **arrays)
    except (OSError, ValueError, KeyError):
        raise ComponentFailed(f"{SENTENCE_MODEL}: cannot be read; install palimpsest-memory again") from None


def sentence_model_key() -> str:
    """Returns the hash of the model's file."""
    return file_hash(SHIPPED / SENTENCE_MODEL)


# Which sentences form an item, by the model and by what rules say of the sentence.

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
