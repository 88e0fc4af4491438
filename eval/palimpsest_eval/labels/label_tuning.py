"""Labelled pairs to tune a relation program on, and programs compiled with a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.relations.classify.golden_pairs import golden_pairs
from palimpsest.relations.classify.lm.lm_settings import LmSettings
from palimpsest.relations.classify.lm.relation_program import (
    INSTRUCTIONS,
    load_program,
    pair_inputs,
)
from palimpsest.relations.classify.pairs_file import PairRow, group_of, pair_from_row, read_pairs_file
from palimpsest.relations.relation_review import decided_pairs
from palimpsest.store.home import Home

STAND_IN_NOTE = (
    "No PALIMPSEST_LM: a fake model answers from the labels themselves, whatever the question is. It shows the steps;"
    " its figures and an edit's effect mean nothing, and a build refuses a program that was made with it."
)


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
