"""What notebook 2 calls: run a program on labelled pairs, read its misses, compile it, save it with a score card."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.core.json_types import JsonObject
from palimpsest.eval.labels.label_metrics import LabelMetrics, label_metrics, predictions, wilson_interval
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
from palimpsest.relations.classify.pairs_file import PairRow, pair_from_row, read_pairs_file
from palimpsest.relations.relation_review import decided_pairs
from palimpsest.store.home import Home

STAND_IN_NOTE = (
    "No PALIMPSEST_LM: a stand-in answers from the labels themselves, whatever the question asks. It shows the steps;"
    " its figures and an edit's effect mean nothing, and a build refuses a program that was made with it."
)
_RESAMPLES = 1000


@dataclass(frozen=True)
class TrialUsage:
    """LM calls, tokens and money that a trial added to the ledger."""

    lm_calls: int
    tokens: int
    cost: float


@dataclass(frozen=True)
class ProgramTrial:
    """A program's results on labelled pairs.

    Attributes:
        program: its hash.
        rows: the pairs.
        results: a result for each.
        state: of a compiled program; None for one that is not.
    """

    program: str
    rows: Sequence[PairRow]
    results: Sequence[LabelResult]
    state: JsonObject | None

    @property
    def metrics(self) -> LabelMetrics:
        """Macro-F1, each label's precision and recall, false retirements."""
        return label_metrics(predictions(self.rows, self.results))

    @property
    def usage(self) -> TrialUsage:
        """What this trial added to the ledger; pairs that were in it cost nothing."""
        return TrialUsage(
            sum(x.lm_calls for x in self.results),
            sum(x.tokens for x in self.results),
            sum(x.cost for x in self.results),
        )

    def misses(self) -> pl.DataFrame:
        """Returns the pairs with a wrong label, false retirements first."""
        wrong = [
            (r["id"], str(r.get("source", "")), r["label"], x.label, x.confidence, r["older"], r["newer"])
            for r, x in zip(self.rows, self.results, strict=True)
            if x.label != r["label"]
        ]
        schema = dict.fromkeys(("id", "source", "label", "predicted"), pl.String) | {"confidence": pl.Float64}
        frame = pl.DataFrame(wrong, schema=schema | {"older": pl.String, "newer": pl.String}, orient="row")
        return frame.sort(pl.col("predicted") != "UPDATE", "label", "predicted", "id")

    def misses_by(self, column: Literal["label", "source"]) -> pl.DataFrame:
        """Returns pairs and misses for each label or source, the worst first."""
        wrong = [x.label != r["label"] for r, x in zip(self.rows, self.results, strict=True)]
        retired = [x.label == "UPDATE" for x in self.results]
        rows = pl.DataFrame({column: [str(r.get(column, "")) for r in self.rows], "missed": wrong, "retired": retired})
        counts = rows.group_by(column).agg(
            pl.len().alias("pairs"),
            pl.col("missed").sum(),
            (pl.col("missed") & pl.col("retired")).sum().alias("falsely_retired"),
        )
        return counts.sort(pl.col("missed") / pl.col("pairs"), column, descending=[True, False])

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """Returns the 95 % bootstrap interval of macro-F1 over groups of pairs, as those of one group go together."""
        pairs = predictions(self.rows, self.results)
        groups: dict[str, list[int]] = {}
        for i, row in enumerate(self.rows):
            groups.setdefault(_group(row), []).append(i)
        names, draw = sorted(groups), random.Random(seed)  # noqa: S311 (resampling, not secrets)
        scores = sorted(
            label_metrics([pairs[i] for name in draw.choices(names, k=len(names)) for i in groups[name]]).macro_f1
            for _ in range(_RESAMPLES)
        )
        return scores[int(0.025 * _RESAMPLES)], scores[int(0.975 * _RESAMPLES)]


def try_program(
    rows: Sequence[PairRow],
    settings: LmSettings,
    ledger: Ledger,
    instructions: str = INSTRUCTIONS,
    state: JsonObject | None = None,
) -> ProgramTrial:
    """Runs a program on labelled pairs; results that this program gave before come from the ledger."""
    labeler = LmLabeler(settings, ledger, None, state, instructions)
    return ProgramTrial(labeler.program, rows, labeler.label([pair_from_row(r) for r in rows]), state)


def labelled_rows(home: Home, source: str) -> list[PairRow]:
    """Returns labelled pairs to tune on, by group and id.

    Args:
        home: the home.
        source: `golden` (what comes with Palimpsest), `home` (what people decided on this home's relations), or a JSONL
            file: id, older, newer, label[, older_date, newer_date, group].

    Raises:
        PalimpsestError: the file is unusable, or nobody decided anything in this home.
    """
    if source == "golden":
        rows = golden_pairs("train")
    elif source == "home":
        rows = decided_pairs(home)
        if not rows:
            raise PalimpsestError(
                f"home {home.path}: no relation was decided by a person; palimpsest review lists candidates"
            )
    else:
        rows = read_pairs_file(Path(source), "PAIRS_FROM", labelled=True)
    return sorted(rows, key=lambda r: (_group(r), r["id"]))


def _group(row: PairRow) -> str:
    return str(row.get("group") or row["id"])


def compile_program(
    rows: Sequence[PairRow],
    settings: LmSettings,
    instructions: str = INSTRUCTIONS,
    demonstrations: int = 4,
    reflection: LmSettings | None = None,
    rounds: int = 20,
) -> JsonObject:
    """Returns a compiled program: demonstrations by BootstrapFewShot, instructions by GEPA with a reflection LM.

    Args:
        rows: labelled pairs to learn from; judge on others.
        settings: the model.
        instructions: where it starts.
        demonstrations: at most this many.
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
                metric=_metric_with_feedback,
                max_metric_calls=rounds * 100,
                reflection_lm=_lm(reflection),
                seed=0,
                track_stats=False,
                num_threads=settings.concurrency,
            )
            made = gepa.compile(made, trainset=examples[::2], valset=examples[1::2])
        optimizer = dspy.BootstrapFewShot(
            metric=_is_right, max_bootstrapped_demos=demonstrations, max_labeled_demos=0, max_rounds=1
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


def _is_right(example: Any, predicted: Any, trace: Any = None) -> bool:
    return bool(example.label == predicted.label)


def _metric_with_feedback(
    example: Any, predicted: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Any:
    """Scores a prediction in the signature that GEPA calls."""
    import dspy

    right = _is_right(example, predicted)
    feedback = "right" if right else f"the label is {example.label}, not {predicted.label}"
    if predicted.label == "UPDATE" and not right:
        feedback += "; a fact wrongly retired is lost, the worst mistake"
    return dspy.Prediction(score=float(right), feedback=feedback)


def save_program(
    state: JsonObject, trial: ProgramTrial, why: str, folder: Path | None = None, made_with: str = ""
) -> Path:
    """Writes `data/programs/relation/<hash>.json`: the state and its score card on pairs it did not learn from.

    It does not become the default: `palimpsest gate --labels --program HASH` decides that.

    Args:
        state: of the compiled program.
        trial: its results on those pairs.
        why: why it was made.
        folder: where it is written; None means `data/programs/relation`.
        made_with: name of the model; the gate and builds refuse a program that was made with the stand-in.
    """
    metrics = trial.metrics
    wrong = metrics.false_retirement
    card: JsonObject = {
        "why": why,
        "pairs": metrics.pairs,
        "macro_f1": metrics.macro_f1,
        "interval": trial.interval(),
        "false_retirement": asdict(wrong) | {"interval": wilson_interval(wrong.pairs, wrong.of)},
        "labels": metrics.to_json()["labels"],
    }
    path = (folder or program_folder()) / f"{program_hash(state)}.json"
    write_json(path, {"state": state, "card": card, "made_with": made_with})
    return path
