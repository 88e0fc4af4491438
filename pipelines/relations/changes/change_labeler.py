"""Labels the candidates of a build: an encoder reads each memory with all of them, a judge the few that it may end.

The likeliest candidate alone is disputed, or superseded by what the encoder reads; an UPDATE that the judge finds in
another counts too. No network, no state.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from palimpsest.core.code import code_hash
from palimpsest.core.files import hash_of_file
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.core.progress import progress
from palimpsest.relations.changes.calibration import (
    CALIBRATION_FILE,
    Calibration,
    shipped_calibration,
    softmax_with_none,
)
from palimpsest.relations.changes.change_encoder import (
    GRAPH_FILE,
    PAIR_CLASSES,
    ChangeEncoder,
    ChangeQuestion,
    ChangeReading,
    change_encoder,
)
from palimpsest.relations.changes.change_input import Statement
from palimpsest.relations.changes.outdated_part import outdated_part
from palimpsest.relations.classify.label_types import LabelPair, LabelResult
from palimpsest.relations.classify.model.relation_model import RelationModel
from palimpsest.relations.classify.model.shipped_model import default_key, default_model
from palimpsest.relations.classify.offline_labeler import CANDIDATE_ODDS, OfflineLabeler
from palimpsest.store.home import SHIPPED
from palimpsest.text.normalize import fold

JUDGED_FROM, JUDGED = 0.02, 3
"""Probability of the encoder from which a judge reads a candidate, and how many of a memory at most."""
MIN_PROBABILITY = 0.85
"""A label that is neither UPDATE nor NONE is given from this probability on."""
MAX_TOGETHER = 12
"""Candidates that are read together: more have too little room."""
_QUESTIONS_AT_ONCE = 256
_CODE = ("palimpsest.relations.changes.change_labeler",)
_UPDATE, _EXTEND, _CONDITIONAL, _DERIVE = (PAIR_CLASSES.index(n) for n in ("update", "extend", "conditional", "derive"))

Candidates = tuple[list[LabelPair], ChangeReading, np.ndarray]
"""The pairs of one newer memory, what the encoder read of them, and how likely the newer one ends each."""


def shipped_key() -> str:
    """Returns the key of all files that decide about labels, without opening a model."""
    return content_id(default_key(), *(hash_of_file(SHIPPED / name) for name in (GRAPH_FILE, CALIBRATION_FILE)))


def change_labeler(none_odds: float = CANDIDATE_ODDS) -> "ChangeLabeler":
    """Returns the labeler of a build that comes with Palimpsest.

    Raises:
        ComponentFailed: a file of it is missing.
    """
    return ChangeLabeler(change_encoder(), PairJudge(default_model()), shipped_calibration(), none_odds)


class PairJudge:
    """The labeler of single pairs, for those that an encoder finds likely: its model reads each of them.

    Its labels need the evidence that builds ask for.
    """

    def __init__(self, model: RelationModel):
        self._open, self._strict = OfflineLabeler(model), OfflineLabeler(model, CANDIDATE_ODDS)
        self.program_hash = self._strict.program_hash

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order."""
        return self._strict.label_prepared(self._open.prepare(pairs, lambda n: None))


@dataclass(frozen=True)
class ChangeLabeler:
    """See RelationLabeler; pairs of one newer memory that follow each other are read together.

    Attributes:
        encoder: reads them.
        judge: labels single pairs.
        calibration: of both.
        none_odds: factor on the odds of NONE against EXTEND and DERIVE.
    """

    encoder: ChangeEncoder
    judge: PairJudge
    calibration: Calibration
    none_odds: float = 1.0

    name = "offline"
    reads_together = True

    @property
    def program_hash(self) -> str:
        """See RelationLabeler."""
        parts = (self.encoder.key, self.judge.program_hash, self.calibration.to_json(), str(self.none_odds))
        return content_id("changes", code_hash(_CODE), *parts)

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order."""
        out: list[LabelResult] = []
        with progress("label", len(pairs), "pairs") as advance:
            for part in self._read(pairs, advance):
                out += self._decide(part)
        return out

    def _read(self, pairs: Sequence[LabelPair], advance: Callable[[int], None]) -> Iterator[list[Candidates]]:
        groups = list(_groups(pairs))
        for start in range(0, len(groups), _QUESTIONS_AT_ONCE):
            part = groups[start : start + _QUESTIONS_AT_ONCE]
            read = self.encoder.read([_question(group) for group in part], advance)
            yield [(group, r, self._ended(group, r)) for group, r in zip(part, read, strict=True)]

    def _ended(self, pairs: Sequence[LabelPair], reading: ChangeReading) -> np.ndarray:
        """Returns the probability that the newer memory ends each candidate; 0 of what it cannot end."""
        odds = self.calibration.log_odds(reading.scores, reading.classes[:, _UPDATE])
        may_end = np.array([p.order != -1 and fold(p.newer) != fold(p.older) for p in pairs])
        found: np.ndarray = np.where(may_end, softmax_with_none(np.where(may_end, odds, -30.0)), 0.0)
        return found

    def _decide(self, read: Sequence[Candidates]) -> list[LabelResult]:
        likely = [(i, int(row)) for i, (_, _, ended) in enumerate(read) for row in _likely_rows(ended)]
        judged = dict(zip(likely, self.judge.label([read[i][0][row] for i, row in likely]), strict=True))
        out: list[LabelResult] = []
        for i, (pairs, reading, ended) in enumerate(read):
            results = [self._other(pair, reading, row, float(ended[row])) for row, pair in enumerate(pairs)]
            best = int(ended.argmax())
            for row in _likely_rows(ended):
                given = judged[i, int(row)]
                if row == best:
                    part = outdated_part(pairs[row].older, reading.outdated[row])
                    results[row] = self._of_best(pairs[row], results[row], given, part)
                elif is_update(given):
                    results[row] = _by_judge(given, max(results[row].likelihood or 0.0, self.calibration.superseded))
            out += results
        return out

    def _of_best(
        self, pair: LabelPair, read: LabelResult, judged: LabelResult, part: tuple[tuple[int, int], ...]
    ) -> LabelResult:
        """Returns the result of the likeliest candidate: superseded, disputed, or what the judge says of the pair."""
        of_judge, is_rule = judged_probability(judged)
        p = round(self.calibration.judged(read.likelihood or 0.0, of_judge, is_rule), 3)
        if is_update(judged):
            return _by_judge(judged, max(p, self.calibration.superseded))
        spans = part or ((0, len(pair.older)),)
        found: JsonObject = {"rule": "model", "newer": [0, len(pair.newer)], "older": [spans[0][0], spans[-1][1]]}
        if p >= self.calibration.superseded:
            return LabelResult("UPDATE", p, found, likelihood=p, part=part)
        if p >= self.calibration.disputed:
            found |= {"instead_of": "UPDATE"}
            return replace(judged, evidence=found, decided=False, conflict="", likelihood=p, part=part)
        if judged.label in ("EXTEND", "DERIVE"):
            evidence = {k: v for k, v in judged.evidence.items() if k != "instead_of"}
            return replace(judged, evidence=evidence, decided=True, likelihood=p)
        return replace(read, likelihood=p)

    def _other(self, pair: LabelPair, reading: ChangeReading, row: int, likelihood: float) -> LabelResult:
        """Returns what the encoder says of a pair that is no UPDATE."""
        if fold(pair.newer) == fold(pair.older):
            return LabelResult("NONE", 1.0, {"rule": "same text"})
        p = np.exp(reading.classes[row].astype(np.float64))
        none = float(p[4:].sum()) * self.none_odds
        extend, derive = float(p[_EXTEND] + p[_CONDITIONAL]), float(p[_DERIVE])
        total = none + extend + derive
        label, value = max((("NONE", none), ("EXTEND", extend), ("DERIVE", derive)), key=lambda x: x[1])
        if label != "NONE" and value < MIN_PROBABILITY * total:
            label, value = "NONE", none
        conflict = "conditional" if label == "EXTEND" and p[_CONDITIONAL] > p[_EXTEND] else ""
        evidence: JsonObject = {"rule": "model"}
        return LabelResult(label, round(value / total, 3), evidence, conflict=conflict, likelihood=round(likelihood, 3))


def judged_probability(judged: LabelResult) -> tuple[float, bool]:
    """Returns the judge's probability of UPDATE, and whether a rule of it says so."""
    by_model = judged.evidence.get("p")
    p = float(by_model["UPDATE"]) if isinstance(by_model, dict) else 0.0  # type: ignore[arg-type]
    return p, judged.rule != "model" and is_update(judged)


def is_update(judged: LabelResult) -> bool:
    """Returns whether the judge says UPDATE, of the older text or of a part of it."""
    return judged.label == "UPDATE" or bool(judged.evidence.get("partial_update"))


def _by_judge(judged: LabelResult, likelihood: float) -> LabelResult:
    """Returns the UPDATE that the judge found; of a part, the sentence that it replaces is what ends."""
    part: tuple[tuple[int, int], ...] = ()
    if judged.evidence.get("partial_update"):
        start, end = judged.evidence["older"]  # type: ignore[misc]
        part = ((int(start), int(end)),)  # type: ignore[arg-type]
    return LabelResult("UPDATE", judged.confidence, judged.evidence, likelihood=likelihood, part=part)


def _likely_rows(ended: np.ndarray) -> np.ndarray:
    """Returns the rows of the candidates that a judge reads, likeliest first."""
    best: np.ndarray = np.argsort(-ended, kind="stable")[:JUDGED]
    return best[ended[best] >= JUDGED_FROM]


def _groups(pairs: Sequence[LabelPair]) -> Iterator[list[LabelPair]]:
    """Yields the pairs of one newer memory that follow each other, as many as are read together."""
    for _, members in groupby(pairs, key=lambda pair: pair.newer_id):
        group = list(members)
        for start in range(0, len(group), MAX_TOGETHER):
            yield group[start : start + MAX_TOGETHER]


def _question(pairs: Sequence[LabelPair]) -> ChangeQuestion:
    newer = Statement(pairs[0].newer, pairs[0].newer_speaker or pairs[0].newer_context, pairs[0].newer_at)
    older = [Statement(p.older, p.older_speaker or p.older_context, p.older_at) for p in pairs]
    return ChangeQuestion(newer, older)
