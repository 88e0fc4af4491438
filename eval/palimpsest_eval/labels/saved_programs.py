"""Relation programs as files: DSPy's state with a score card, and the card as Markdown next to it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_bytes, write_json
from palimpsest.core.ids import JsonObject
from palimpsest.relations.labelers.lm_labeler import program_folder, program_hash, refuse_fake_program
from palimpsest.store.home import Home, data_file
from palimpsest_eval.golden.questions import Quote
from palimpsest_eval.golden.resolve import QuoteIndex
from palimpsest_eval.labels.label_metrics import ReliabilityBin, reliability, wilson_interval
from palimpsest_eval.labels.program_trial import ProgramTrial
from palimpsest_eval.metrics import numbered_lines

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
        folder: where it is written, see `home_programs`; None means `data/programs/relation`.
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


def home_programs(home: Home) -> Path:
    """Returns the folder of the programs that notebook 2 made; the repository gets one by `use_program`."""
    return home.path / "programs" / "relation"


def find_program(name: str, home: Home | None = None) -> Path:
    """Returns the file of a program of this project, else of the home, else of those that come with Palimpsest."""
    file = f"{Path(name).name}.json"
    folders = [program_folder(), *([home_programs(home)] if home else [])]
    return next((f / file for f in folders if (f / file).is_file()), data_file(f"programs/relation/{file}"))


def use_program(path: Path) -> None:
    """Makes a program the default of `data/programs/relation`; one from elsewhere is copied there with its card."""
    for file in (path, path.with_suffix(".md")):
        if file.is_file() and file.parent != program_folder():
            write_bytes(program_folder() / file.name, file.read_bytes())
    write_json(program_folder() / "default.json", {"program": path.stem})


def read_program(name: str, home: Home | None = None, option: str = "--program") -> JsonObject:
    """Returns a program as `find_program` finds it: `state`, `card`, `made_with`.

    Raises:
        PalimpsestError: there is none of that name, or it was made with the fake model.
    """
    saved = read_json(find_program(name, home))
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


# Labels of a build against the register: relations that people found in the sources, by uri and quote.

LABELS = ("UPDATE", "EXTEND", "DERIVE", "NONE")
_BINS = 5
_FIELDS = ("id", "collection", "user", "label", "newer", "older")


@dataclass(frozen=True)
class RegisterRelation:
    """A line of the register; the relation leads from the newer quote to any of the older ones.

    `kind` marks what a test or a study counts, such as `plain` and `trap`; None where the line has none.
    """

    id: str
    collection: str
    user: str
    label: str
    newer: Quote
    older: tuple[Quote, ...]
    kind: str | None = None


@dataclass(frozen=True)
class RegisterPrediction:
    """A relation's right label, and the build's label of the same two memories.

    `predicted` is NONE, without a confidence, where the build has no relation between them.
    """

    relation_id: str
    gold: str
    predicted: str
    confidence: float | None


def register_path(data: Path) -> Path:
    """Returns the path of the register below the project's data folder."""
    return data / "golden" / "relations.jsonl"


def compare_register(path: Path, tables: Mapping[str, pl.DataFrame], collection: str) -> list[RegisterPrediction]:
    """Returns the build's labels of the register's relations of a collection.

    A relation whose quotes are not in the build is left out. Any pair of memories that show the two quotes counts; of
    several labels the right one, else one that is not NONE.

    Raises:
        PalimpsestError: a line is not JSON or lacks a field; the message names it.
    """
    relations = [r for r in read_register(path) if r.collection == collection]
    index = QuoteIndex(tables, collection, {quote.uri for r in relations for quote in (r.newer, *r.older)})
    columns = ("newer_id", "older_id", "label", "confidence")
    rows = tables["relations"].filter(pl.col("collection") == collection).select(columns).iter_rows()
    labels: dict[tuple[str, str], tuple[str, float | None]] = {
        (newer_id, older_id): (label, confidence) for newer_id, older_id, label, confidence in rows
    }
    found = []
    for relation in relations:
        newer_ids = index.find_memories(relation.newer, relation.user)
        older_ids = [index.find_memories(quote, relation.user) for quote in relation.older]
        if isinstance(newer_ids, str) or any(isinstance(ids, str) for ids in older_ids):
            continue
        pairs = [(newer, older) for newer in sorted(newer_ids) for ids in older_ids for older in sorted(ids)]
        predicted, confidence = _best_label([labels[p] for p in pairs if p in labels], relation.label)
        found.append(RegisterPrediction(relation.id, relation.label, predicted, confidence))
    return found


def _best_label(found: Sequence[tuple[str, float | None]], gold: str) -> tuple[str, float | None]:
    """Returns the first (label, confidence) that is right, else that is not NONE, else the first; NONE of nothing."""
    right = [f for f in found if f[0] == gold]
    related = [f for f in found if f[0] != "NONE"]
    return (*right, *related, *found, ("NONE", None))[0]


def confusion(predictions: Iterable[RegisterPrediction]) -> dict[str, dict[str, int]]:
    """Returns gold -> predicted -> count, all labels, zeros included."""
    counts = {gold: dict.fromkeys(LABELS, 0) for gold in LABELS}
    for item in predictions:
        counts[item.gold][item.predicted] += 1
    return counts


def calibration(predictions: Iterable[RegisterPrediction]) -> tuple[ReliabilityBin, ...]:
    """Returns a bin for each fifth of confidence that occurs, ascending; labels without a confidence are left out."""
    outcomes = ((p.confidence, p.gold == p.predicted) for p in predictions)
    return reliability(((c, right) for c, right in outcomes if c is not None), _BINS)


def read_register(path: Path) -> list[RegisterRelation]:
    """Returns the lines of the register; none where the file does not exist.

    Raises:
        PalimpsestError: a line is not JSON or lacks a field; the message names it.
    """
    relations = []
    for where, line in numbered_lines(path) if path.exists() else ():
        try:
            row = json.loads(line)
            missing = [f for f in _FIELDS if f not in row]
        except (ValueError, TypeError):
            raise PalimpsestError(f"{where}: not a JSON object; fix it ({path})") from None
        if missing:
            raise PalimpsestError(f"{where}: {missing[0]} is required ({path})")
        if row["label"] not in LABELS:
            raise PalimpsestError(f"{where}: label {row['label']!r} is none of {', '.join(LABELS)}")
        newer, older = Quote(**row["newer"]), tuple(Quote(**quote) for quote in row["older"])
        known = (row["id"], row["collection"], row["user"], row["label"], newer, older, row.get("kind"))
        relations.append(RegisterRelation(*known))
    return relations
