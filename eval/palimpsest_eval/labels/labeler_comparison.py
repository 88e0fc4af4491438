"""A relation program next to the offline labeler on the same pairs: cost, agreement, and where they differ."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars as pl

from palimpsest.core.ids import JsonObject
from palimpsest.relations.labelers.label_types import LABELS, LabelResult, RelationLabeler
from palimpsest.relations.labelers.pairs_file import PairRow, pair_from_row
from palimpsest_eval.labels.label_metrics import LabelMetrics, label_metrics, predictions
from palimpsest_eval.labels.program_trial import ProgramTrial

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
