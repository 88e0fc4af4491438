"""Relation programs as files: DSPy's state with a score card, and the card as Markdown next to it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_bytes, write_json
from palimpsest.core.types import JsonObject
from palimpsest.relations.labelers.lm_labeler import program_folder, program_hash, refuse_fake_program
from palimpsest.store.home import data_file
from palimpsest_eval.labels.label_metrics import wilson_interval
from palimpsest_eval.labels.program_trial import ProgramTrial

UNMEASURED = (
    "Not measured: any other model. What a stronger model makes of this program is known once it was run with that"
    " model: `palimpsest label tune --program NAME`."
)

NO_FIGURES = (
    "No figures: it was compiled without a model, and no model ran it on labeled pairs yet."
    " `palimpsest label tune --program NAME` does."
)


@dataclass(frozen=True)
class CompiledFrom:
    """How a program was compiled, so that it can be compiled again.

    Attributes:
        optimizer: of DSPy.
        pairs_from: where the demonstrations are from.
        demonstrations: ids of those pairs.
        seed: of their choice.
    """

    optimizer: str
    pairs_from: str
    demonstrations: Sequence[str]
    seed: int


def save_program(
    state: JsonObject,
    trial: ProgramTrial | None,
    why: str,
    folder: Path | None = None,
    name: str | None = None,
    compiled_from: CompiledFrom | None = None,
    baseline: ProgramTrial | None = None,
) -> Path:
    """Writes `data/programs/relation/NAME.json`, the state and its score card, and the card as NAME.md.

    It does not become the default: `palimpsest gate --labels --program NAME` decides that.

    Args:
        state: of the compiled program.
        trial: its results on pairs it did not learn from, None where no model ran it yet. The gate and builds refuse
            one of the fake model.
        why: why it was made.
        folder: where it is written; None means `data/programs/relation`.
        name: of the file; None means the program's hash.
        compiled_from: how it was compiled.
        baseline: results of the program it is to replace, on the same pairs.
    """
    card: JsonObject = {"why": why, "unmeasured": UNMEASURED if trial else NO_FIGURES}
    if trial is not None:
        card |= _trial_figures(trial)
    if compiled_from is not None:
        card["compiled_from"] = asdict(compiled_from)
    if baseline is not None:
        card["baseline"] = _trial_figures(baseline)
    name = name or program_hash(state)
    path = (folder or program_folder()) / f"{name}.json"
    write_json(path, {"state": state, "card": card, "made_with": trial.model if trial else ""})
    write_bytes(path.with_suffix(".md"), card_markdown(name, card).encode())
    return path


def read_program(name: str, option: str = "--program") -> JsonObject:
    """Returns a program of this project, else one that comes with Palimpsest: `state`, `card`, `made_with`.

    Raises:
        PalimpsestError: there is none of that name, or it was made with the fake model.
    """
    saved = read_json(data_file(f"programs/relation/{Path(name).name}.json"))
    if not isinstance(saved, dict) or not isinstance(saved.get("state"), dict):
        raise PalimpsestError(
            f"{option} {name}: no such file in {program_folder()}; save one with `palimpsest label tune --save NAME`"
        )
    refuse_fake_program(saved, f"{option} {name}")
    return saved


def card_markdown(name: str, card: Mapping[str, object]) -> str:
    """Returns a score card for people."""
    lines = [f"# Relation program `{name}`", "", str(card["why"]), ""]
    compiled = card.get("compiled_from")
    if isinstance(compiled, Mapping):
        ids = ", ".join(f"`{i}`" for i in compiled["demonstrations"])
        lines += [
            f"Compiled by DSPy's {compiled['optimizer']} with seed {compiled['seed']} from {compiled['pairs_from']}."
            f" Demonstrations: {ids}.",
            "",
        ]
    if "model" not in card:
        return "\n".join([*lines, str(card["unmeasured"]), ""])
    trials = [("this program", card)]
    if isinstance(before := card.get("baseline"), Mapping):
        trials.insert(0, ("before", before))
    lines += [
        f"Figures with the model `{card['model']}` on {card['pairs']} pairs that it did not learn from:",
        "",
        "| program | macro-F1 (95 % interval) | UPDATE recall | falsely retired | readable answers | tokens a pair |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_figure_row(label, figures) for label, figures in trials]
    return "\n".join([*lines, "", str(card["unmeasured"]), ""])


def _trial_figures(trial: ProgramTrial) -> JsonObject:
    metrics = trial.metrics
    wrong, answers = metrics.false_retirement, max(1, trial.totals.answers)
    return {
        "model": trial.model,
        "pairs": metrics.pairs,
        "macro_f1": metrics.macro_f1,
        "interval": trial.interval(),
        "false_retirement": asdict(wrong) | {"interval": wilson_interval(wrong.pairs, wrong.of)},
        "labels": metrics.to_json()["labels"],
        "answers": len(trial.answered),
        "unreadable": trial.unreadable,
        "tokens_per_pair": round((trial.totals.tokens_in + trial.totals.tokens_out) / answers, 1),
    }


def _figure_row(name: str, figures: Mapping[str, object]) -> str:
    interval, wrong, labels = figures["interval"], figures["false_retirement"], figures["labels"]
    assert isinstance(interval, Sequence) and isinstance(wrong, Mapping) and isinstance(labels, Mapping)
    answers, unreadable = int(str(figures["answers"])), int(str(figures["unreadable"]))
    return (
        f"| {name} | {figures['macro_f1']:.2f} ({interval[0]:.2f} to {interval[1]:.2f}) |"
        f" {labels['UPDATE']['recall']:.2f} | {wrong['pairs']} of {wrong['of']} | {answers - unreadable} of {answers} |"
        f" {figures['tokens_per_pair']:.0f} |"
    )
