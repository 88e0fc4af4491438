"""What notebook 2 does: ask a program about labelled pairs, read its misses, compile it, save it with a score card."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.eval.labels.measured_labels import figures, judged, wilson
from palimpsest.relations.classify.label_types import LabelResult
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_labeler import LmLabeler
from palimpsest.relations.classify.lm.lm_settings import LmSettings
from palimpsest.relations.classify.lm.relation_program import (
    INSTRUCTIONS,
    load_program,
    pair_inputs,
    program_folder,
    program_hash,
)
from palimpsest.relations.classify.model.model_cache import golden_pairs
from palimpsest.relations.classify.pairs_file import pair_from_row, read_pairs_file
from palimpsest.relations.relation_review import decided_pairs
from palimpsest.store.home import Home

STAND_IN_NOTE = (
    "No PALIMPSEST_LM: a stand-in answers from the labels themselves, whatever the question says. It shows the way;"
    " its figures and an edit's effect mean nothing, and a build refuses a program that was made with it."
)
_RESAMPLED = 1000


@dataclass(frozen=True)
class Tried:
    """A program's answers to labelled pairs; `calls` and `cost` are what this trial added."""

    program: str
    rows: list[dict[str, Any]]
    answers: list[LabelResult]
    state: dict[str, Any] | None

    @property
    def figures(self) -> dict[str, Any]:
        """Macro-F1, each label's precision and recall, false retirements."""
        return figures(judged(self.rows, self.answers))

    @property
    def usage(self) -> dict[str, float]:
        """Calls, tokens and money that this trial added to the ledger."""
        return {
            "lm_calls": sum(a.lm_calls for a in self.answers),
            "tokens": sum(a.tokens for a in self.answers),
            "cost": sum(a.cost for a in self.answers),
        }

    def misses(self) -> pl.DataFrame:
        """Returns the pairs that were answered wrongly, false retirements first."""
        wrong = [
            {
                "id": r["id"],
                "source": str(r.get("source", "")),
                "label": r["label"],
                "said": a.label,
                "confidence": a.confidence,
                "older": r["older"],
                "newer": r["newer"],
            }
            for r, a in zip(self.rows, self.answers, strict=True)
            if a.label != r["label"]
        ]
        schema = dict.fromkeys(("id", "source", "label", "said"), pl.String) | {"confidence": pl.Float64}
        frame = pl.DataFrame(wrong, schema=schema | {"older": pl.String, "newer": pl.String})
        return frame.sort(pl.col("said") != "UPDATE", "label", "said", "id")

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """Returns the 95 % bootstrap interval of macro-F1 over groups of pairs, as those of one group go together."""
        pairs = judged(self.rows, self.answers)
        groups: dict[str, list[int]] = {}
        for i, r in enumerate(self.rows):
            groups.setdefault(str(r.get("group") or r["id"]), []).append(i)
        names, draw = sorted(groups), random.Random(seed)  # noqa: S311 (resampling, not secrets)
        scores = sorted(
            figures([pairs[i] for name in draw.choices(names, k=len(names)) for i in groups[name]])["macro_f1"]
            for _ in range(_RESAMPLED)
        )
        return scores[int(0.025 * _RESAMPLED)], scores[int(0.975 * _RESAMPLED)]


def try_program(
    rows: Sequence[dict[str, Any]],
    settings: LmSettings,
    ledger: Ledger,
    instructions: str = INSTRUCTIONS,
    state: dict[str, Any] | None = None,
    max_cost: float | None = None,
) -> Tried:
    """Asks a program about labelled pairs; pairs that this program was asked before come from the ledger."""
    labeler = LmLabeler(settings, ledger, max_cost, state, instructions)
    answers = labeler.label([pair_from_row(r) for r in rows])
    return Tried(labeler.program, list(rows), answers, state)


def labelled_rows(home: Home, source: str) -> list[dict[str, Any]]:
    """Returns labelled pairs to tune on, by group and id.

    Args:
        home: the home.
        source: `golden` (what comes with Palimpsest), `home` (what people decided of this home's relations), or a JSONL
            file: id, older, newer, label[, older_date, newer_date, group].

    Raises:
        PalimpsestError: the file is unusable, or nobody decided anything in this home.
    """
    if source == "golden":
        rows = golden_pairs("train")
    elif source == "home":
        rows = decided_pairs(home)
        if not rows:
            raise PalimpsestError(f"home {home.path}: nobody decided a relation; palimpsest review lists them")
    else:
        rows = read_pairs_file(Path(source), "PAIRS_FROM", labelled=True)
    return sorted(rows, key=lambda r: (str(r.get("group") or r["id"]), r["id"]))


def misses_by(tried: Tried, column: str) -> pl.DataFrame:
    """Returns pairs and misses for each label or source, the worst first."""
    rows = pl.DataFrame(
        {
            column: [str(r.get(column, "")) for r in tried.rows],
            "missed": [a.label != r["label"] for r, a in zip(tried.rows, tried.answers, strict=True)],
            "falsely_retired": [
                a.label == "UPDATE" != r["label"] for r, a in zip(tried.rows, tried.answers, strict=True)
            ],
        }
    )
    told = rows.group_by(column).agg(pl.len().alias("pairs"), pl.col("missed").sum(), pl.col("falsely_retired").sum())
    return told.sort((pl.col("missed") / pl.col("pairs")), column, descending=[True, False])


def compile_program(
    rows: Sequence[dict[str, Any]],
    settings: LmSettings,
    instructions: str = INSTRUCTIONS,
    demonstrations: int = 4,
    reflection: LmSettings | None = None,
    rounds: int = 20,
) -> dict[str, Any]:
    """Returns a compiled program: demonstrations by BootstrapFewShot, instructions by GEPA with a reflection LM.

    Args:
        rows: labelled pairs to learn from; judge on others.
        settings: the model.
        instructions: where it starts.
        demonstrations: at most so many.
        reflection: the model that rewrites instructions; None leaves them as they are.
        rounds: metric calls of GEPA, in hundreds of pairs.
    """
    import dspy

    inputs = [pair_inputs(pair_from_row(r)) for r in rows]
    examples = [dspy.Example(**i, label=r["label"]).with_inputs(*i) for i, r in zip(inputs, rows, strict=True)]
    made = load_program(None, instructions)
    lm = _lm(settings)
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        if reflection is not None:
            gepa = dspy.GEPA(
                metric=_told,
                max_metric_calls=rounds * 100,
                reflection_lm=_lm(reflection),
                seed=0,
                track_stats=False,
                num_threads=settings.concurrency,
            )
            made = gepa.compile(made, trainset=examples[::2], valset=examples[1::2])
        optimizer = dspy.BootstrapFewShot(
            metric=_right, max_bootstrapped_demos=demonstrations, max_labeled_demos=0, max_rounds=1
        )
        made = optimizer.compile(made, trainset=examples)
    return dict(made.dump_state())


def _lm(settings: LmSettings) -> Any:
    import dspy

    return dspy.LM(
        f"openai/{settings.model}",
        api_base=settings.url,
        api_key=settings.key,
        cache=False,
        temperature=0.0,
        max_tokens=settings.max_tokens,
        timeout=settings.timeout_s,
        num_retries=settings.attempts,
    )


def _right(example: Any, said: Any, trace: Any = None) -> bool:
    return bool(example.label == said.label)


def _told(example: Any, said: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    import dspy

    right = example.label == said.label
    cost = 0.0 if not right else 1.0
    feedback = "right" if right else f"the label is {example.label}, not {said.label}"
    if said.label == "UPDATE" and not right:
        feedback += "; a fact wrongly retired is lost, the worst mistake"
    return dspy.Prediction(score=cost, feedback=feedback)


def save_program(
    state: dict[str, Any], tried: Tried, why: str, folder: Path | None = None, made_with: str = ""
) -> Path:
    """Writes `data/programs/relation/<hash>.json`: the state and its score card on pairs it did not learn from.

    `made_with` names the model; a program that was made with the stand-in is refused by the gate and by builds.

    It is not the default: `palimpsest gate --labels --program HASH` decides that.
    """
    found = tried.figures
    wrong = found["false_retirement"]
    card = {
        "why": why,
        "pairs": found["pairs"],
        "macro_f1": found["macro_f1"],
        "interval": tried.interval(),
        "false_retirement": wrong | {"interval": wilson(wrong["pairs"], wrong["of"])},
        "labels": found["labels"],
    }
    path = (folder or program_folder()) / f"{program_hash(state)}.json"
    write_json(path, {"state": state, "card": card, "made_with": made_with})
    return path
