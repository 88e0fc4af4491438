"""`palimpsest gate --labels`: may this labeler, or this program, be the default? Judged on golden pairs kept for it."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.eval.labels.measured_labels import figures, figures_text, judged
from palimpsest.relations.classify.choose_labeler import build_labeler
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_labeler import LmLabeler
from palimpsest.relations.classify.lm.lm_settings import lm_settings
from palimpsest.relations.classify.lm.relation_program import program_folder, refuse_fake_program
from palimpsest.relations.classify.model.model_cache import golden_pairs
from palimpsest.relations.classify.pairs_file import pair_from_row
from palimpsest.store.home import Home, data_folder

MOST_LOST = 0.01
"""Macro-F1 that may be lost: the same program on the same pairs loses none, so this is only room for rounding."""
_ACCEPT = "`palimpsest baseline accept --labels --why TEXT`"


@dataclass(frozen=True)
class LabelVerdict:
    """What the gate says of a labeler: passed or failed, why, and its figures on the test pairs."""

    labeler: str
    program: str
    reasons: tuple[str, ...]
    figures: dict[str, Any]

    @property
    def status(self) -> str:
        """`passed` or `failed`."""
        return "failed" if self.reasons else "passed"

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict for machines."""
        return {
            "status": self.status,
            "labeler": self.labeler,
            "program": self.program,
            "reasons": list(self.reasons),
            "figures": self.figures,
        }

    def text(self) -> str:
        """Returns the verdict for people."""
        head = f"labels by {self.labeler} ({self.program}): {self.status}"
        return "\n".join([head, *(f"  {r}" for r in self.reasons), figures_text(self.figures)])


def judge_labeler(labeler: Any, rows: list[dict[str, Any]] | None = None, path: Path | None = None) -> LabelVerdict:
    """Judges a labeler on the golden test pairs against the committed figures.

    It fails without pairs or a baseline, for a figure that is missing or no number, for macro-F1 lost beyond 0.01, for
    more false retirements than the baseline has, and for more answers that could not be read or never came than 2 %.
    """
    rows = golden_pairs("test") if rows is None else rows
    answers = labeler.label([pair_from_row(r) for r in rows])
    found = figures(judged(rows, answers))
    broken = sum(1 for a in answers if "failed" in a.evidence or a.evidence.get("rule") == "unpaid")
    found["unanswered"] = broken
    return LabelVerdict(labeler.name, labeler.program_hash, decide_labels(found, load_label_baseline(path)), found)


def decide_labels(found: dict[str, Any], baseline: dict[str, Any] | None) -> tuple[str, ...]:
    """Returns the reasons why figures do not pass; none where they do."""
    if not found["pairs"]:
        return ("no pair was judged; add golden pairs with split test",)
    if baseline is None:
        return (f"no baseline of labels; {_ACCEPT} writes one",)
    reasons = []
    try:
        was, now = float(baseline["macro_f1"]), float(found["macro_f1"])
        wrong_was, wrong = int(baseline["false_retirement"]["pairs"]), int(found["false_retirement"]["pairs"])
    except (KeyError, TypeError, ValueError):
        return (f"the baseline of labels lacks a figure; {_ACCEPT} writes a new one",)
    if math.isnan(now) or math.isnan(was):
        reasons.append("macro-F1 is no number")
    elif now < was - MOST_LOST:
        reasons.append(f"macro-F1 {now:.3f}, was {was:.3f}")
    if wrong > wrong_was:
        reasons.append(f"{wrong} pairs falsely retired, were {wrong_was}")
    if found["unanswered"] > 0.02 * found["pairs"]:
        reasons.append(f"{found['unanswered']} of {found['pairs']} pairs without a readable answer")
    return tuple(reasons)


def label_baseline_path() -> Path:
    """Returns where the committed figures of labels lie."""
    return data_folder() / "baselines" / "labels.json"


def load_label_baseline(path: Path | None = None) -> dict[str, Any] | None:
    """Returns the committed figures, None where there are none."""
    found = read_json(path or label_baseline_path())
    return found if isinstance(found, dict) else None


def accept_labels(home: Home, why: str) -> Path:
    """Writes the figures of the home's labeler as what later ones must not fall behind; returns the file."""
    from palimpsest.eval.gate.baseline import current_commit

    labeler = build_labeler(home, none_odds=1.0)
    rows = golden_pairs("test")
    found = figures(judged(rows, labeler.label([pair_from_row(r) for r in rows])))
    told = {"why": why, "commit": current_commit(), "labeler": labeler.name, "program": labeler.program_hash}
    path = label_baseline_path()
    write_json(
        path, told | {k: found[k] for k in ("pairs", "macro_f1", "labels", "false_retirement", "ece", "coverage")}
    )
    return path


def judge_home_labels(home: Home, program: str | None = None) -> LabelVerdict:
    """Judges the labeler that the environment names, or one saved program of data/programs/relation.

    A program that passes becomes the default.

    Raises:
        PalimpsestError: there is no such program.
    """
    if program is None:
        return judge_labeler(build_labeler(home, none_odds=1.0))
    saved = read_json(program_folder() / f"{Path(program).name}.json")
    if not isinstance(saved, dict) or "state" not in saved:
        raise PalimpsestError(f"--program {program}: no such file in {program_folder()}; save one with notebook 2")
    refuse_fake_program(saved, f"--program {program}")
    verdict = judge_labeler(LmLabeler(lm_settings(), Ledger(home.lm_ledger), state=saved["state"]))
    if verdict.status == "passed":
        write_json(program_folder() / "default.json", {"program": Path(program).name})
    return verdict
