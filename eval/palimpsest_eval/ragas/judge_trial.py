"""The prompts of the RAGAS judge, tried on a few questions: what was sent, what came back, and what it scored."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import LmSettings
from palimpsest_eval.golden.golden_run import TOP
from palimpsest_eval.ragas.ragas_check import RagasSample
from palimpsest_eval.ragas.ragas_lm import (
    ANSWER_PROMPT,
    METRICS,
    SampleScores,
    choose_samples,
    judging_lm,
    score_samples,
)

_FIELDS = ("{context}", "{question}")


@dataclass(frozen=True)
class Exchange:
    """A prompt about a question, and the model's answer."""

    query_id: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class JudgeTrial:
    """What a trial of the judge sent, received and scored.

    Attributes:
        samples: the questions.
        scores: of each.
        exchanges: by question and prompt.
        calls, tokens, cost: of this trial; answers that the ledger had cost nothing.
    """

    samples: Sequence[RagasSample]
    scores: Sequence[SampleScores]
    exchanges: Sequence[Exchange]
    calls: int
    tokens: int
    cost: float

    def table(self) -> pl.DataFrame:
        """Returns a row for each question: our recall by ids in the top five, the judge's metrics (null if unread)."""
        rows = [
            {
                "query_id": s.query_id,
                "question": s.question,
                f"R@{TOP}": len(set(s.ranked[:TOP]) & set(s.relevant)) / max(1, len(set(s.relevant))),
                **{metric: scored.values.get(metric) for metric in METRICS},
                "problems": ", ".join(f"{n} {what}" for what, n in sorted(scored.problems.items())),
            }
            for s, scored in zip(self.samples, self.scores, strict=True)
        ]
        types = {"query_id": pl.String, "question": pl.String, f"R@{TOP}": pl.Float64}
        return pl.DataFrame(rows, schema=types | dict.fromkeys(METRICS, pl.Float64) | {"problems": pl.String})

    def disagreements(self) -> pl.DataFrame:
        """Returns the questions that our recall and the judge's differ on most, the most first."""
        gap = (pl.col(f"R@{TOP}") - pl.col("context_recall")).abs()
        found = self.table().with_columns(gap=gap).filter(pl.col("gap") > 0)
        return found.sort("gap", "query_id", descending=[True, False]).drop("problems")

    def exchanges_table(self) -> pl.DataFrame:
        """Returns a row for each prompt with its answer."""
        rows = [(e.query_id, e.prompt, e.answer) for e in self.exchanges]
        return pl.DataFrame(rows, schema=dict.fromkeys(("query_id", "prompt", "answer"), pl.String), orient="row")

    def compare(self, edited: "JudgeTrial") -> pl.DataFrame:
        """Returns the mean of each metric of this trial and of another, over the questions that both read."""
        rows = []
        for metric in METRICS:
            both = [
                (a.values[metric], b.values[metric])
                for a, b in zip(self.scores, edited.scores, strict=True)
                if metric in a.values and metric in b.values
            ]
            n = max(1, len(both))
            rows.append((metric, len(both), sum(a for a, _ in both) / n, sum(b for _, b in both) / n))
        return pl.DataFrame(rows, schema=["metric", "questions", "as_it_was", "edited"], orient="row")

    def usage(self) -> pl.DataFrame:
        """Returns one row: questions, calls, tokens and cost of this trial."""
        return pl.DataFrame(
            {"questions": [len(self.samples)], "calls": [self.calls], "tokens": [self.tokens], "cost": [self.cost]}
        )


def try_judge(
    samples: Sequence[RagasSample],
    settings: LmSettings,
    ledger: Ledger,
    questions: int,
    answer_prompt: str = ANSWER_PROMPT,
    max_cost: float | None = None,
) -> JudgeTrial:
    """Lets the model judge some questions; answers that it gave before come from the ledger.

    Args:
        samples: the questions with what was retrieved for them.
        settings: the model.
        ledger: where answers are stored.
        questions: how many of the samples are judged.
        answer_prompt: for the answer whose faithfulness is judged, with `{context}` and `{question}`.
        max_cost: money that may be spent now; None means no limit.

    Raises:
        PalimpsestError: the prompt lacks a field.
    """
    if missing := [field for field in _FIELDS if field not in answer_prompt]:
        raise PalimpsestError(f"answer_prompt: {missing[0]} is required; add it where the text belongs")
    exchanges: list[Exchange] = []
    chosen = choose_samples(samples, questions)
    lm = judging_lm(settings, ledger, max_cost, lambda *answer: exchanges.append(Exchange(*answer)))
    scores = score_samples(chosen, lm, settings.concurrency, answer_prompt)
    exchanges.sort(key=lambda e: (e.query_id, e.prompt))
    return JudgeTrial(
        chosen, scores, exchanges, lm.paid.calls, lm.paid.tokens_in + lm.paid.tokens_out, round(lm.paid.budget.spent, 6)
    )
