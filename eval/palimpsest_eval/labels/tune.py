"""`palimpsest label tune`: a relation program on labeled pairs, within a budget, next to the offline labeler."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.core.imports import import_with_json_schema
from palimpsest.lm.client import Ledger, LmUnavailable
from palimpsest.lm.engine import OptimizerEngine, failed_call
from palimpsest.lm.settings import Budget, LmSettings, answer_adapter, lm_settings
from palimpsest.relations.labelers.label_types import LABELS, LabelResult, RelationLabeler
from palimpsest.relations.labelers.lm_labeler import INSTRUCTIONS, load_program, pair_inputs
from palimpsest.relations.labelers.offline_labeler import offline_labeler
from palimpsest.relations.labelers.pairs_file import (
    PairRow,
    golden_pairs,
    group_of,
    pair_from_row,
    read_pairs_file,
    write_pairs_file,
)
from palimpsest.relations.relation_review import decided_pairs
from palimpsest.store.home import Home
from palimpsest_eval.labels.label_metrics import LabelMetrics, label_metrics, predictions
from palimpsest_eval.labels.program_trial import ProgramTrial, sample_rows, try_program
from palimpsest_eval.labels.saved_programs import learned_groups, read_program

# A relation program next to the offline labeler on the same pairs: cost, agreement, and where they differ.

_ROW = "by model"
_EXAMPLES = 10
_EXAMPLE_CHARS = 160


@dataclass(frozen=True)
class Agreement:
    """How often two labelers give the same label.

    Attributes:
        pairs: that both labeled.
        share: of them with the same label; 0 where there are none.
        kappa: Cohen's kappa (1960): agreement beyond what their label counts make likely by chance; None where both
            always give the same one label.
    """

    pairs: int
    share: float
    kappa: float | None


def agreement(first: Sequence[str], second: Sequence[str]) -> Agreement:
    """Returns the agreement of two sequences of labels of the same pairs."""
    n = len(first)
    if not n:
        return Agreement(0, 0.0, None)
    share = sum(a == b for a, b in zip(first, second, strict=True)) / n
    left, right = Counter(first), Counter(second)
    by_chance = sum(left[label] * right[label] for label in left) / (n * n)
    kappa = None if by_chance == 1 else round((share - by_chance) / (1 - by_chance), 4)
    return Agreement(n, round(share, 4), kappa)


@dataclass(frozen=True)
class LabelerComparison:
    """Results of a program and of the offline labeler on the same labeled pairs.

    Attributes:
        trial: of the program.
        offline: the offline labeler's results, in the order of the trial's rows.
        trained_on: pairs of the trial that the offline labeler was trained on: there its own figures are no test.
    """

    trial: ProgramTrial
    offline: Sequence[LabelResult]
    trained_on: int

    @property
    def agreement(self) -> Agreement:
        """On the pairs that the model answered; an abstention, and an unreadable answer, counts as NONE."""
        rows = self._answered()
        return agreement([lm.label for _, lm, _ in rows], [off.label for _, _, off in rows])

    def table(self) -> pl.DataFrame:
        """Returns the counts of pairs by label: a row for each of the model's, a column for each of the offline one."""
        counts = Counter((lm.label, off.label) for _, lm, off in self._answered())
        return pl.DataFrame(
            [{_ROW: lm} | {off: counts[lm, off] for off in LABELS} for lm in LABELS],
            schema={_ROW: pl.String} | dict.fromkeys(LABELS, pl.Int64),
        )

    def differences(self) -> pl.DataFrame:
        """Returns the pairs whose labels differ, those that one of the two would retire first."""
        columns = ("id", "golden", "model", "model_confidence", "offline", "offline_confidence", "older", "newer")
        rows = [
            (r["id"], r["label"], lm.label, lm.confidence, off.label, off.confidence, r["older"], r["newer"])
            for r, lm, off in self._answered()
            if lm.label != off.label
        ]
        types = {c: pl.Float64 if c.endswith("confidence") else pl.String for c in columns}
        frame = pl.DataFrame(rows, schema=types, orient="row")
        return frame.sort((pl.col("model") != "UPDATE") & (pl.col("offline") != "UPDATE"), "model", "offline", "id")

    def figures(self) -> pl.DataFrame:
        """Returns the figures of both against the golden labels, on the pairs that the model answered."""
        rows = []
        for name, metrics in self._metrics().items():
            wrong = metrics.false_retirement
            rows.append(
                {
                    "labeler": name,
                    "pairs": metrics.pairs,
                    "macro_f1": metrics.macro_f1,
                    "accuracy": metrics.accuracy,
                    "update_recall": metrics.labels["UPDATE"].recall,
                    "falsely_retired": wrong.pairs,
                    "of": wrong.of,
                    "decided": metrics.coverage,
                }
            )
        return pl.DataFrame(rows)

    def cost(self) -> pl.DataFrame:
        """Returns one row: calls and cost of this run, and tokens and cost of a pair over all answers in the ledger."""
        totals, n = self.trial.totals, max(1, self.trial.totals.answers)
        return pl.DataFrame(
            [
                {
                    "model": self.trial.model,
                    "pairs": len(self.trial.rows),
                    "answered": len(self.trial.answered),
                    "unreadable": self.trial.unreadable,
                    "calls_now": self.trial.usage.lm_calls,
                    "cost_now": round(self.trial.usage.cost, 6),
                    "seconds": round(self.trial.seconds, 1),
                    "tokens_in_per_pair": round(totals.tokens_in / n, 1),
                    "tokens_out_per_pair": round(totals.tokens_out / n, 1),
                    "cost_of_1000_pairs": round(1000 * totals.cost / n, 4),
                }
            ]
        )

    def to_json(self) -> JsonObject:
        """Returns the comparison as JSON values, with the first differences."""
        metrics = self._metrics()
        return {
            "program": self.trial.program,
            "cost": self.cost().to_dicts()[0],
            "agreement": asdict(self.agreement),
            "table": {str(row[_ROW]): {label: row[label] for label in LABELS} for row in self.table().to_dicts()},
            "differ": self.differences().height,
            "examples": self.differences().head(_EXAMPLES).to_dicts(),
            "figures": {name: found.to_json() for name, found in metrics.items()},
            "offline_trained_on": self.trained_on,
        }

    def text(self) -> str:
        """Returns the comparison for people."""
        cost, found = self.cost().to_dicts()[0], self.agreement
        kappa = "undefined" if found.kappa is None else f"{found.kappa:.3f}"
        lines = [
            f"program {self.trial.program} by {cost['model']}: {cost['answered']} of {cost['pairs']} pairs answered,"
            f" {cost['unreadable']} answers unreadable",
            f"cost: {cost['calls_now']} calls now, {cost['cost_now']:.6f}, {cost['seconds']} s; a pair reads"
            f" {cost['tokens_in_per_pair']} tokens and writes {cost['tokens_out_per_pair']}; 1,000 pairs cost"
            f" {cost['cost_of_1000_pairs']:.4f}",
            f"agreement with the offline labeler: {found.share:.3f} of {found.pairs} pairs, Cohen's kappa {kappa}",
            "",
            f"{'model / offline':16}" + "".join(f"{label:>8}" for label in LABELS),
        ]
        lines += [f"{row[_ROW]:16}" + "".join(f"{row[x]:8}" for x in LABELS) for row in self.table().to_dicts()]
        lines += ["", *self._difference_lines(), "", "against the golden labels:"]
        for row in self.figures().to_dicts():
            lines.append(
                f"  {row['labeler']}: macro-F1 {row['macro_f1']:.3f}, UPDATE recall {row['update_recall']:.3f},"
                f" falsely retired {row['falsely_retired']} of {row['of']}, decided {100 * row['decided']:.0f} %"
            )
        if self.trained_on:
            lines.append(f"  the offline labeler was trained on {self.trained_on} of these pairs: no test of it")
        return "\n".join(lines)

    def _difference_lines(self) -> list[str]:
        differ = self.differences()
        shown = differ.head(_EXAMPLES).to_dicts()
        lines = [f"they differ on {differ.height} pairs" + (f"; the first {len(shown)}:" if shown else "")]
        for row in shown:
            lines.append(f"  {row['id']}: model {row['model']}, offline {row['offline']}, golden {row['golden']}")
            lines += [f"    {name}: {str(row[name])[:_EXAMPLE_CHARS]}" for name in ("older", "newer")]
        return lines

    def _answered(self) -> list[tuple[PairRow, LabelResult, LabelResult]]:
        return [(self.trial.rows[i], self.trial.results[i], self.offline[i]) for i in self.trial.answered]

    def _metrics(self) -> dict[str, LabelMetrics]:
        found = self._answered()
        rows = [r for r, _, _ in found]
        return {
            "model": label_metrics(predictions(rows, [lm for _, lm, _ in found])),
            "offline": label_metrics(predictions(rows, [off for _, _, off in found])),
        }


def compare_with_offline(
    trial: ProgramTrial, offline: RelationLabeler, trained_on: Sequence[PairRow] = ()
) -> LabelerComparison:
    """Labels the pairs of a trial with the offline labeler too.

    Args:
        trial: of a program.
        offline: the labeler to compare with.
        trained_on: the pairs that it was trained on.
    """
    known = {(r["older"], r["newer"]) for r in trained_on}
    seen = sum((r["older"], r["newer"]) in known for r in trial.rows)
    return LabelerComparison(trial, offline.label([pair_from_row(r) for r in trial.rows]), seen)


# Labelled pairs to tune a relation program on, and programs compiled with a model.

_SEED = 0
_WRITTEN_TOKENS = 4000  # of instructions


def labelled_rows(home: Home, source: str) -> list[PairRow]:
    """Returns labelled pairs to tune on, by group and id.

    Args:
        home: the home.
        source: `golden` (what comes with Palimpsest), `home` (what people decided on this home's relations), or a JSONL
            file: id, older, newer, label[, older_date, newer_date, group]; of a folder, its JSONL files without the
            lines whose split is test.

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
    elif Path(source).is_dir():
        rows = [
            row
            for path in sorted(Path(source).glob("*.jsonl"))
            for row in read_pairs_file(path, "pairs", labelled=True)
            if row.get("split") != "test"
        ]
        if not rows:
            raise PalimpsestError(f"{source}: no labelled pairs to tune on in its JSONL files; name another folder")
    else:
        rows = read_pairs_file(Path(source), "pairs", labelled=True)
    return sorted(rows, key=lambda r: (group_of(r), r["id"]))


Optimizer = Literal["BootstrapFewShot", "MIPROv2", "GEPA"]
_ROUND_PAIRS = 100


@dataclass(frozen=True)
class CompiledProgram:
    """A program that an optimizer of DSPy made: its state, and the calls, money and seconds that it took now."""

    optimizer: Optimizer
    state: JsonObject
    calls: int
    cost: float
    seconds: float


def compile_program(
    rows: Sequence[PairRow],
    settings: LmSettings,
    ledger: Ledger,
    optimizer: Optimizer = "BootstrapFewShot",
    instructions: str = INSTRUCTIONS,
    demonstrations: int = 4,
    rounds: int = 5,
    writer: LmSettings | None = None,
    max_cost: float | None = None,
) -> CompiledProgram:
    """Returns a compiled program: instructions by GEPA or MIPROv2, demonstrations by MIPROv2 or BootstrapFewShot.

    Args:
        rows: labelled pairs to learn from; judge on others.
        settings: the model.
        ledger: of the answers; none is paid twice.
        optimizer: of DSPy.
        instructions: where it starts.
        demonstrations: at most this many.
        rounds: candidates of MIPROv2, or metric calls of GEPA in hundreds of pairs.
        writer: the model that writes instructions; None means the same.
        max_cost: the most that it may spend now; None means no limit.

    Raises:
        PalimpsestError: the budget did not last to the end.
        ComponentFailed: the model gave no answer.
    """
    dspy = import_with_json_schema("dspy")
    inputs = [pair_inputs(pair_from_row(r)) for r in rows]
    examples = [dspy.Example(**i, label=r["label"]).with_inputs(*i) for i, r in zip(inputs, rows, strict=True)]
    budget, started = Budget(max_cost), time.perf_counter()
    engine = OptimizerEngine(settings, ledger, budget)
    writing = OptimizerEngine(replace(writer or settings, max_tokens=_WRITTEN_TOKENS), ledger, budget)
    made: Any
    try:
        with dspy.context(lm=engine.lm(), adapter=answer_adapter(settings.answer_format)):
            student, learn, check = load_program(None, instructions), examples[::2], examples[1::2]
            if optimizer == "GEPA":
                gepa = dspy.GEPA(
                    metric=_metric_with_feedback,
                    max_metric_calls=rounds * _ROUND_PAIRS,
                    reflection_lm=writing.lm(),
                    num_threads=settings.concurrency,
                )
                made = gepa.compile(student, trainset=learn, valset=check)
            elif optimizer == "MIPROv2":
                mipro = dspy.MIPROv2(
                    metric=_is_right,
                    prompt_model=writing.lm(),
                    task_model=engine.lm(),
                    max_bootstrapped_demos=demonstrations,
                    max_labeled_demos=0,
                    auto=None,
                    num_candidates=rounds,
                    num_threads=settings.concurrency,
                    seed=_SEED,
                )
                made = mipro.compile(student, trainset=learn, valset=check, num_trials=2 * rounds, minibatch=False)
            else:
                bootstrap = dspy.BootstrapFewShot(
                    metric=_is_right, max_bootstrapped_demos=demonstrations, max_labeled_demos=0, max_rounds=1
                )
                made = bootstrap.compile(student, trainset=examples)
    except Exception as e:
        cause = failed_call(e)
        if not isinstance(cause, LmUnavailable):  # such as a wrong key
            raise cause or e from None
        if not (engine.is_spent or writing.is_spent):
            raise ComponentFailed(f"{optimizer}: the language model gave no answer ({cause}); run it again") from None
    if engine.is_spent or writing.is_spent:
        raise PalimpsestError(f"max_cost {max_cost}: spent before {optimizer} was done; the next run repeats no call")
    calls, seconds = engine.paid.calls + writing.paid.calls, time.perf_counter() - started
    return CompiledProgram(optimizer, dict(made.dump_state()), calls, round(budget.spent, 6), seconds)


def _is_right(example: Any, predicted: Any, trace: Any = None) -> bool:
    return bool(example.label == predicted.label)


def _metric_with_feedback(
    example: Any, predicted: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Any:
    """Scores a prediction in the signature that GEPA calls."""
    dspy = import_with_json_schema("dspy")
    right = _is_right(example, predicted)
    feedback = "right" if right else f"the label is {example.label}, not {predicted.label}"
    if predicted.label == "UPDATE" and not right:
        feedback += "; a fact wrongly retired is lost, the worst mistake"
    return dspy.Prediction(score=float(right), feedback=feedback)


@dataclass(frozen=True)
class TuneOptions:
    """Options of `palimpsest label tune`.

    Attributes:
        pairs: labeled pairs to run on, see `labelled_rows`.
        sample: how many of them.
        program: a saved program; None means the one that builds use.
        max_cost: money that may be spent now; None means no limit.
    """

    pairs: str = "golden"
    sample: int = 100
    program: str | None = None
    max_cost: float | None = None


def tune(home: Home, options: TuneOptions) -> LabelerComparison:
    """Runs a program on a sample of labeled pairs that it did not learn from.

    Raises:
        PalimpsestError: an option, a file or the setting of the model is unusable.
    """
    saved = read_program(options.program, home) if options.program is not None else None
    state, learned_from = (saved["state"], learned_groups(saved)) if saved else (None, frozenset[str]())
    assert state is None or isinstance(state, dict)
    settings, ledger = lm_settings(), Ledger(home.lm_ledger)
    rows = [r for r in labelled_rows(home, options.pairs) if group_of(r) not in learned_from]
    if not (sample := sample_rows(rows, options.sample, _SEED)):
        raise PalimpsestError(f"--pairs {options.pairs}: no pair left to run on; name other pairs")
    trial = try_program(sample, settings, ledger, state=state, max_cost=options.max_cost)
    return compare_with_offline(trial, offline_labeler(none_odds=1.0), golden_pairs("train"))


def write_both_labels(path: Path, comparison: LabelerComparison) -> None:
    """Writes the pairs of a comparison with `predicted`, `confidence` and `offline`, one JSON object a line.

    Raises:
        PalimpsestError: the file cannot be written.
    """
    lines = [
        {**row, "predicted": lm.label, "confidence": round(lm.confidence, 4), "offline": offline.label}
        for row, lm, offline in zip(comparison.trial.rows, comparison.trial.results, comparison.offline, strict=True)
    ]
    write_pairs_file(path, lines)
