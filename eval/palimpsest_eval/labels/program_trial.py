"""A relation program run on labelled pairs: its figures, its misses, and what its answers cost."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from palimpsest.core.ids import JsonObject
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import LmSettings
from palimpsest.relations.labelers.label_types import UNPAID, LabelPair, LabelResult
from palimpsest.relations.labelers.lm_labeler import INSTRUCTIONS, LmLabeler
from palimpsest.relations.labelers.pairs_file import PairRow, group_of, pair_from_row
from palimpsest_eval.labels.label_metrics import LabelMetrics, label_metrics, predictions

_RESAMPLES = 1000


@dataclass(frozen=True)
class TrialUsage:
    """LM calls, tokens and money that a trial added to the ledger."""

    lm_calls: int
    tokens: int
    cost: float


@dataclass(frozen=True)
class AnswerTotals:
    """All answers of a trial that are in the ledger, those of earlier trials included, and their tokens and cost."""

    answers: int
    tokens_in: int
    tokens_out: int
    cost: float


@dataclass(frozen=True)
class ProgramTrial:
    """A program's results on labelled pairs.

    Attributes:
        program: its hash.
        rows: the pairs.
        results: a result for each.
        state: of a compiled program; None for one that is not.
        model: its name.
        totals: of its answers in the ledger.
        seconds: of this run, known answers included.
    """

    program: str
    rows: Sequence[PairRow]
    results: Sequence[LabelResult]
    state: JsonObject | None
    model: str
    totals: AnswerTotals
    seconds: float

    @property
    def metrics(self) -> LabelMetrics:
        """Macro-F1, each label's precision and recall, false retirements."""
        return label_metrics(predictions(self.rows, self.results))

    @property
    def answered(self) -> list[int]:
        """Positions of the pairs that the model answered, unreadable answers included."""
        return [i for i, x in enumerate(self.results) if x.rule != UNPAID]

    @property
    def unreadable(self) -> int:
        """Answers that are no label; they count as NONE."""
        return sum("failed" in x.evidence for x in self.results)

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
            groups.setdefault(group_of(row), []).append(i)
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
    max_cost: float | None = None,
) -> ProgramTrial:
    """Runs a program on labelled pairs; results that this program gave before come from the ledger.

    Args:
        rows: the pairs.
        settings: the model.
        ledger: where answers are stored.
        instructions: of the program, where nothing was compiled.
        state: a compiled program; None means the accepted one, or the instructions as they are.
        max_cost: money that may be spent now; None means no limit. Pairs that it does not cover have no answer.
    """
    labeler = LmLabeler(settings, ledger, max_cost, state, instructions)
    pairs = [pair_from_row(r) for r in rows]
    started = time.perf_counter()
    results = labeler.label(pairs)
    seconds = time.perf_counter() - started
    totals = _answer_totals(labeler, ledger, pairs)
    return ProgramTrial(labeler.program, rows, results, state, settings.model, totals, seconds)


def _answer_totals(labeler: LmLabeler, ledger: Ledger, pairs: Sequence[LabelPair]) -> AnswerTotals:
    stored = [answer for key in sorted({labeler.key(p) for p in pairs}) if (answer := ledger.get(key)) is not None]
    return AnswerTotals(
        len(stored), sum(a.tokens_in for a in stored), sum(a.tokens_out for a in stored), sum(a.cost for a in stored)
    )


def sample_rows(rows: Sequence[PairRow], count: int, seed: int = 0) -> list[PairRow]:
    """Returns at most `count` of the rows, drawn by their ids and in their order; the same for the same ids."""
    ids = sorted(r["id"] for r in rows)
    random.Random(seed).shuffle(ids)  # noqa: S311
    drawn = set(ids[:count])
    return [r for r in rows if r["id"] in drawn]
