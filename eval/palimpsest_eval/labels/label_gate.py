"""`palimpsest gate --labels`: whether a labeler, or a program, may be the default, by the golden test pairs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palimpsest.core.files import read_json, write_json
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import lm_settings
from palimpsest.relations.labelers.choose_labeler import build_labeler
from palimpsest.relations.labelers.label_types import UNPAID, LabelResult, RelationLabeler
from palimpsest.relations.labelers.lm_labeler import LmLabeler
from palimpsest.relations.labelers.pairs_file import PairRow, golden_pairs, pair_from_row, written_pairs
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.labels.label_metrics import LabelMetrics, LabelPrediction, label_metrics, metrics_by, predictions
from palimpsest_eval.labels.saved_programs import find_program, read_program, refuse_unproven, use_program

MAX_F1_LOSS = 0.01
"""Of macro-F1: the same program on the same pairs loses none, so this is only room for rounding."""
_MAX_UNANSWERED = 0.02
GOLDEN, DOMAINS = "golden", "domains"
"""The sets of test pairs: data/golden/pairs.jsonl, and the test domains of data/golden/pairs."""
_ACCEPT = "`palimpsest baseline accept --labels --why TEXT`"


@dataclass(frozen=True)
class LabelVerdict:
    """The gate's decision on a labeler.

    Attributes:
        labeler: its name.
        program: hash of its program.
        reasons: why it failed; none where it passed.
        judged: what it predicted of the test pairs.
        unanswered: pairs without a readable answer.
    """

    labeler: str
    program: str
    reasons: tuple[str, ...]
    judged: "JudgedPairs"
    unanswered: int

    @property
    def metrics(self) -> LabelMetrics:
        """Metrics on the golden test pairs, those of data/golden/pairs.jsonl."""
        return self.judged.metrics()[GOLDEN]

    @property
    def status(self) -> str:
        """`passed` or `failed`."""
        return "failed" if self.reasons else "passed"

    def to_json(self) -> JsonObject:
        """Returns the JSON of `palimpsest gate --labels`."""
        return {
            "status": self.status,
            "labeler": self.labeler,
            "program": self.program,
            "reasons": self.reasons,
            "figures": self.metrics.to_json() | {"unanswered": self.unanswered},
            **self.judged.to_json(),
        }

    def text(self) -> str:
        """Returns the verdict for people."""
        head = f"labels by {self.labeler} ({self.program}): {self.status}"
        sets = (f"{name}:\n{metrics.text()}" for name, metrics in self.judged.metrics().items())
        return "\n".join([head, *(f"  {r}" for r in self.reasons), *sets])


@dataclass(frozen=True)
class JudgedPairs:
    """Predictions of test pairs, in the order of their rows."""

    rows: Sequence[PairRow]
    predictions: Sequence[LabelPrediction]

    def metrics(self) -> dict[str, LabelMetrics]:
        """Returns metrics by set: the golden pairs, and the pairs of domains that no labeler is trained on."""
        sets = {GOLDEN: lambda row: "domain" not in row, DOMAINS: lambda row: "domain" in row}
        return {
            name: label_metrics([p for r, p in zip(self.rows, self.predictions, strict=True) if belongs(r)])
            for name, belongs in sets.items()
        }

    def to_json(self) -> JsonObject:
        """Returns the metrics of the pairs of domains, all together, by domain and by form."""
        written = [(r, p) for r, p in zip(self.rows, self.predictions, strict=True) if "domain" in r]
        judged = [p for _, p in written]
        by_domain = metrics_by(judged, [r["domain"] for r, _ in written])
        by_form = metrics_by(judged, [r["form"] for r, _ in written])
        return {
            DOMAINS: self.metrics()[DOMAINS].to_json(),
            "by_domain": {name: asdict(m) for name, m in by_domain.items()},
            "by_form": {name: asdict(m) for name, m in by_form.items()},
        }


def judge_labeler(labeler: RelationLabeler) -> LabelVerdict:
    """Judges a labeler on the test pairs against the committed baseline, each set of pairs by itself.

    It fails without pairs or a baseline, for a figure that is missing or not a number, for macro-F1 lost beyond 0.01,
    for more false retirements than the baseline has, and for more than 2 % of the pairs without a readable answer.
    """
    judged, results = _judge(labeler)
    unanswered = sum(1 for x in results if "failed" in x.evidence or x.rule == UNPAID)
    metrics, baseline = judged.metrics(), load_label_baseline()
    reasons = decide_labels(metrics[GOLDEN], unanswered, baseline)
    stored = (baseline or {}).get(DOMAINS)
    if isinstance(stored, Mapping):
        reasons += tuple(f"{DOMAINS}: {reason}" for reason in decide_labels(metrics[DOMAINS], 0, stored))
    return LabelVerdict(labeler.name, labeler.program_hash, reasons, judged, unanswered)


def _judge(labeler: RelationLabeler) -> tuple[JudgedPairs, list[LabelResult]]:
    rows = [*golden_pairs("test"), *written_pairs("test")]
    results = labeler.label([pair_from_row(r) for r in rows])
    return JudgedPairs(rows, predictions(rows, results)), results


def decide_labels(metrics: LabelMetrics, unanswered: int, baseline: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """Returns the reasons why metrics do not pass; none where they do."""
    if not metrics.pairs:
        return ("no pair was judged; add golden pairs with split test",)
    if baseline is None:
        return (f"no baseline of labels; {_ACCEPT} writes one",)
    try:
        old_f1, old_wrong = _baseline_figures(baseline)
    except (KeyError, TypeError, ValueError):
        return (f"the baseline of labels lacks a figure; {_ACCEPT} writes a new one",)
    reasons = []
    wrong = metrics.false_retirement.pairs
    if math.isnan(metrics.macro_f1) or math.isnan(old_f1):
        reasons.append("macro-F1 is no number")
    elif metrics.macro_f1 < old_f1 - MAX_F1_LOSS:
        reasons.append(f"macro-F1 {metrics.macro_f1:.3f}, was {old_f1:.3f}")
    if wrong > old_wrong:
        reasons.append(f"{wrong} pairs falsely retired, were {old_wrong}")
    if unanswered > _MAX_UNANSWERED * metrics.pairs:
        reasons.append(f"{unanswered} of {metrics.pairs} pairs without a readable answer")
    return tuple(reasons)


def _baseline_figures(baseline: Mapping[str, Any]) -> tuple[float, int]:
    """Returns macro-F1 and pairs falsely retired."""
    return float(baseline["macro_f1"]), int(baseline["false_retirement"]["pairs"])


def label_baseline_path() -> Path:
    """Returns the file of the committed label metrics."""
    return data_folder() / "baselines" / "labels.json"


def load_label_baseline() -> JsonObject | None:
    """Returns the committed label metrics, None where there are none."""
    found = read_json(label_baseline_path())
    return found if isinstance(found, dict) else None


def accept_labels(home: Home, why: str) -> Path:
    """Writes the metrics of the home's labeler as the baseline of later ones; returns the file."""
    from palimpsest_eval.gate.baseline import current_commit

    labeler = build_labeler(home, none_odds=1.0)
    metrics = {name: m.to_json() for name, m in _judge(labeler)[0].metrics().items()}
    stored = ("pairs", "macro_f1", "labels", "false_retirement", "ece", "coverage")
    golden, domains = ({name: metrics[of][name] for name in stored} for of in (GOLDEN, DOMAINS))
    origin = {"why": why, "commit": current_commit(), "labeler": labeler.name, "program": labeler.program_hash}
    path = label_baseline_path()
    write_json(path, origin | golden | {DOMAINS: domains})
    return path


def judge_home_labels(home: Home, program: str | None = None) -> LabelVerdict:
    """Judges the labeler that the environment names, or one saved program.

    A program that passes becomes the default, and one of the home a file of data/programs/relation.

    Raises:
        PalimpsestError: there is no such program, or it is no better than the plain one on unseen pairs.
    """
    if program is None:
        return judge_labeler(build_labeler(home, none_odds=1.0))
    saved = read_program(program, home)
    refuse_unproven(saved, f"--program {program}")
    state = saved["state"]
    assert isinstance(state, dict)
    verdict = judge_labeler(LmLabeler(lm_settings(), Ledger(home.lm_ledger), state=state))
    if verdict.status == "passed":
        use_program(find_program(program, home))
    return verdict
