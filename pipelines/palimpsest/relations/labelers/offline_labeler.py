"""The offline labeler: a chooser reads a memory with all its candidates, a judge the few of them that it may end.

Both, and whether a rule finds an UPDATE (two values of one slot, say), give one probability. The likeliest candidate
alone is superseded or disputed, each time that it was said. No network, no state.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from palimpsest.core.code import code_hash
from palimpsest.core.files import SHIPPED, hash_of_file, progress
from palimpsest.core.ids import content_id
from palimpsest.relations.labelers.apply_rules import update_by_rules
from palimpsest.relations.labelers.calibration import (
    CALIBRATION_FILE,
    Calibration,
    Lines,
    configured_lines,
    shipped_calibration,
    softmax_with_none,
)
from palimpsest.relations.labelers.change_encoder import (
    CHOOSER_FILE,
    JUDGE_FILE,
    PAIR_CLASSES,
    ChangeEncoder,
    ChangeQuestion,
    ChangeReading,
    Statement,
    Words,
    outdated_part,
    shipped_encoder,
)
from palimpsest.relations.labelers.label_types import CANDIDATE_ODDS, LabelPair, LabelResult
from palimpsest.relations.labelers.reading import RuleUpdate
from palimpsest.text.words import fold

JUDGED_FROM, JUDGED = 0.08, 3
"""Probability of the chooser from which the judge reads a candidate, and how many of a memory at most."""
MIN_PROBABILITY = 0.85
"""A label that is neither UPDATE nor NONE is given from this probability on."""
MAX_TOGETHER = 14
"""Candidates that are read together: those of `candidate_pairs`, with the turns before one that refers back."""
_QUESTIONS_AT_ONCE = 256
_CANNOT_END = -30.0  # log odds
_CODE = ("palimpsest.relations.labelers.offline_labeler",)
_UPDATE, _EXTEND, _CONDITIONAL, _DERIVE = map(PAIR_CLASSES.index, ("update", "extend", "conditional", "derive"))


def shipped_key() -> str:
    """Returns the key of all that decides about labels, without opening a model."""
    files = (hash_of_file(SHIPPED / name) for name in (CHOOSER_FILE, JUDGE_FILE, CALIBRATION_FILE))
    return content_id("offline", labeler_code(), *files, str(configured_lines(shipped_calibration())))


def labeler_code() -> str:
    """Returns the hash of all the code that decides about labels."""
    return code_hash(_CODE)


def offline_labeler(none_odds: float = CANDIDATE_ODDS) -> "OfflineLabeler":
    """Returns the labeler that comes with Palimpsest.

    Args:
        none_odds: see `OfflineLabeler`; by default those of the pairs that a build finds.

    Raises:
        ComponentFailed: a file of it is missing.
        PalimpsestError: the environment sets an unknown level of consequences.
    """
    calibration = shipped_calibration()
    encoders = shipped_encoder(CHOOSER_FILE), shipped_encoder(JUDGE_FILE)
    return OfflineLabeler(*encoders, calibration, configured_lines(calibration), none_odds)


@dataclass
class Candidates:
    """The pairs of one newer memory and what was read of them.

    Attributes:
        pairs: one for each older memory.
        ended: probability that the newer memory ends each, shape (n,).
        classes: log probabilities of PAIR_CLASSES, shape (n, 6).
        outdated: as `ChangeReading` has them.
        by_rule: the UPDATEs that rules find, by row.
    """

    pairs: list[LabelPair]
    ended: np.ndarray
    classes: np.ndarray
    outdated: list[Words]
    by_rule: Mapping[int, RuleUpdate] = field(default_factory=dict)


@dataclass(frozen=True)
class OfflineLabeler:
    """See RelationLabeler; pairs of one newer memory that follow each other are read together.

    Attributes:
        chooser: reads all of them.
        judge: reads those that the chooser finds likely.
        calibration: of both.
        lines: where consequences begin.
        none_odds: factor on the odds of NONE against EXTEND and DERIVE.
    """

    chooser: ChangeEncoder
    judge: ChangeEncoder
    calibration: Calibration
    lines: Lines
    none_odds: float = 1.0

    name = "offline"
    reads_together = True

    @property
    def program_hash(self) -> str:
        """See RelationLabeler."""
        numbers = (self.calibration.to_json(), str(self.lines), str(self.none_odds))
        return content_id("offline", labeler_code(), self.chooser.key, self.judge.key, *numbers)

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order."""
        out: list[LabelResult] = []
        groups = list(_groups(pairs))
        with progress("label", len(pairs), "pairs") as advance:
            for start in range(0, len(groups), _QUESTIONS_AT_ONCE):
                for candidates in self.read(groups[start : start + _QUESTIONS_AT_ONCE], advance):
                    out += self._results(candidates)
        return out

    def read(
        self, groups: Sequence[list[LabelPair]], advance: Callable[[int], None] = lambda n: None
    ) -> list[Candidates]:
        """Returns what chooser and judge read of the pairs of each newer memory."""
        chosen = self.chooser.read([question_of(pairs) for pairs in groups], advance)
        odds = [self._chosen(pairs, reading) for pairs, reading in zip(groups, chosen, strict=True)]
        found = [
            Candidates(
                pairs, softmax_with_none(of_pairs), reading.classes.copy(), list(reading.outdated), _by_rules(pairs)
            )
            for pairs, of_pairs, reading in zip(groups, odds, chosen, strict=True)
        ]
        likely = [(i, rows) for i, of_one in enumerate(found) if len(rows := likely_rows(of_one.ended, of_one.by_rule))]
        judged = self.judge.read([question_of([groups[i][row] for row in rows]) for i, rows in likely])
        for (i, rows), reading in zip(likely, judged, strict=True):
            self._apply(found[i], rows, odds[i][rows], reading)
        return found

    def _chosen(self, pairs: Sequence[LabelPair], reading: ChangeReading) -> np.ndarray:
        """Returns the chooser's log odds of each candidate; very low ones of what the newer memory cannot end."""
        may_end = np.array([p.order != -1 and fold(p.newer) != fold(p.older) for p in pairs])
        found: np.ndarray = np.where(
            may_end, self.calibration.chosen(reading.scores, reading.classes[:, _UPDATE]), _CANNOT_END
        )
        return found

    def _apply(self, found: Candidates, rows: np.ndarray, odds: np.ndarray, reading: ChangeReading) -> None:
        """Puts what the judge reads of some candidates in the place of what the chooser read of them."""
        has_rule = np.array([row in found.by_rule for row in rows.tolist()])
        judged = softmax_with_none(self.calibration.judged(odds, reading.scores, reading.classes[:, _UPDATE], has_rule))
        found.ended[rows] = np.where(odds > _CANNOT_END, judged, 0.0)
        found.classes[rows] = reading.classes
        for row, words in zip(rows, reading.outdated, strict=True):
            found.outdated[row] = words

    def _results(self, read: Candidates) -> list[LabelResult]:
        same = ["" if row in read.by_rule else fold(pair.older) for row, pair in enumerate(read.pairs)]
        for text in {t for t in same if same.count(t) > 1}:  # said more than once, or all by rules: one end for all
            rows = [row for row, t in enumerate(same) if t == text and read.ended[row] > 0]
            read.ended[rows] = read.ended[rows].sum()
        best = same[int(read.ended.argmax())]
        return [
            (self._ended(read, row) if text == best else None) or self._other(read, row)
            for row, text in enumerate(same)
        ]

    def _ended(self, read: Candidates, row: int) -> LabelResult | None:
        """Returns the result of the likeliest candidate where it is superseded or disputed, None where it is not."""
        pair, p = read.pairs[row], round(float(read.ended[row]), 3)
        if p < self.lines.disputed:
            return None
        if rule := read.by_rule.get(row):
            found, part = dict(rule.evidence), rule.part
        else:
            part = outdated_part(pair.older, read.outdated[row])
            spans = part or ((0, len(pair.older)),)
            found = {"rule": "model", "newer": [0, len(pair.newer)], "older": [spans[0][0], spans[-1][1]]}
        if p >= self.lines.superseded:
            return LabelResult("UPDATE", p, found, likelihood=p, part=part)
        label, confidence, conflict = self._label(read.classes[row])
        found["instead_of"] = "UPDATE"
        return LabelResult(label, confidence, found, decided=False, conflict=conflict, likelihood=p, part=part)

    def _other(self, read: Candidates, row: int) -> LabelResult:
        """Returns the result of a pair that is no UPDATE."""
        pair = read.pairs[row]
        if fold(pair.newer) == fold(pair.older):
            return LabelResult("NONE", 1.0, {"rule": "same text"})
        label, confidence, conflict = self._label(read.classes[row])
        p = round(float(read.ended[row]), 3)
        confidence = round((1 - p) * confidence, 3)
        return LabelResult(label, confidence, {"rule": "model"}, conflict=conflict, likelihood=p)

    def _label(self, classes: np.ndarray) -> tuple[str, float, str]:
        """Returns the label of a pair that is no UPDATE, its probability among the others, and its conflict."""
        p = np.exp(classes.astype(np.float64))
        none = float(p[4:].sum()) * self.none_odds
        extend, derive = float(p[_EXTEND] + p[_CONDITIONAL]), float(p[_DERIVE])
        total = none + extend + derive
        label, value = max((("NONE", none), ("EXTEND", extend), ("DERIVE", derive)), key=lambda x: x[1])
        if label != "NONE" and self.none_odds > 1 and value < MIN_PROBABILITY * total:
            label, value = "NONE", none
        conflict = "conditional" if label == "EXTEND" and p[_CONDITIONAL] > p[_EXTEND] else ""
        return label, round(value / total, 3), conflict


def likely_rows(ended: np.ndarray, by_rule: Collection[int] = ()) -> np.ndarray:
    """Returns the rows of the candidates that the judge reads, ascending.

    Args:
        ended: the chooser's probabilities.
        by_rule: rows in which rules find an UPDATE: they are read in any case.
    """
    best = np.argsort(-ended, kind="stable")[:JUDGED]
    found: np.ndarray = np.union1d(best[ended[best] >= JUDGED_FROM], np.array(sorted(by_rule), np.int64))
    return found


def _by_rules(pairs: Sequence[LabelPair]) -> dict[int, RuleUpdate]:
    return {row: update for row, pair in enumerate(pairs) if (update := update_by_rules(pair))}


def _groups(pairs: Sequence[LabelPair]) -> Iterator[list[LabelPair]]:
    """Yields the pairs of one newer memory that follow each other, as many as are read together."""
    for _, members in groupby(pairs, key=lambda pair: pair.newer_id):
        group = list(members)
        for start in range(0, len(group), MAX_TOGETHER):
            yield group[start : start + MAX_TOGETHER]


def question_of(pairs: Sequence[LabelPair]) -> ChangeQuestion:
    """Returns the pairs of one newer memory as the encoders read them: without titles and headings.

    The encoders learnt from what people say. Of documents, a title before both statements makes them look like one
    thing: half of what was superseded by that in the demo's documents was still true.
    """
    newer = Statement(pairs[0].newer, pairs[0].newer_speaker or "", pairs[0].newer_at)
    return ChangeQuestion(newer, [Statement(p.older, p.older_speaker or "", p.older_at) for p in pairs])
