"""Relation programs as files: DSPy's state with a score card, and the card as Markdown next to it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_bytes, write_json
from palimpsest.core.ids import JsonObject
from palimpsest.relations.labelers.lm_labeler import program_folder, program_hash, refuse_fake_program
from palimpsest.store.home import Home
from palimpsest_eval.golden.questions import Quote
from palimpsest_eval.golden.resolve import QuoteIndex
from palimpsest_eval.labels.label_metrics import ReliabilityBin, reliability, wilson_interval
from palimpsest_eval.labels.program_trial import ProgramTrial
from palimpsest_eval.metrics import ALPHA, loss_probability, numbered_lines

UNMEASURED = (
    "Not measured: any other model. What a stronger model makes of this program is known once it was run with that"
    " model: `palimpsest label tune --program NAME`."
)


@dataclass(frozen=True)
class PairedResult:
    """A program against the one that it is to replace, on the same pairs, which it did not learn from.

    Attributes:
        pairs: of the test.
        better: pairs that only this program labels rightly.
        worse: pairs that only the other does.
        p: chance of so many more better ones where the two are alike: a one-sided sign-flip test over pairs.
    """

    pairs: int
    better: int
    worse: int
    p: float


def compare_trials(trial: ProgramTrial, baseline: ProgramTrial) -> PairedResult:
    """Returns the paired test of two trials on the same rows."""
    now, before = (
        np.array([x.label == r["label"] for x, r in zip(t.results, t.rows, strict=True)], int)
        for t in (trial, baseline)
    )
    change = now - before
    better, worse = int((change > 0).sum()), int((change < 0).sum())
    return PairedResult(len(change), better, worse, round(loss_probability(-change.astype(float)), 4))


def save_program(
    state: JsonObject,
    trial: ProgramTrial,
    baseline: ProgramTrial,
    why: str,
    folder: Path | None = None,
    learned_from: Iterable[str] = (),
) -> Path:
    """Writes the state of a program with its score card as HASH.json, and the card as HASH.md.

    It does not become the default: `palimpsest gate --labels --program HASH` decides that.

    Args:
        state: of the compiled program.
        trial: its results on pairs it did not learn from. The gate and builds refuse one of the fake model.
        baseline: results of the program it is to replace, on the same pairs.
        why: why it was made.
        folder: where it is written, see `home_programs`; None means `data/programs/relation`.
        learned_from: groups of the pairs that it learned from.
    """
    card: JsonObject = {"why": why, **_trial_figures(trial), "baseline": _trial_figures(baseline)}
    card |= {"paired": asdict(compare_trials(trial, baseline)), "learned_from": sorted(set(learned_from))}
    name = program_hash(state)
    path = (folder or program_folder()) / f"{name}.json"
    write_json(path, {"state": state, "card": card, "made_with": trial.model})
    write_bytes(path.with_suffix(".md"), card_markdown(name, card).encode())
    return path


def learned_groups(saved: Mapping[str, object]) -> frozenset[str]:
    """Returns the groups of pairs that a saved program learned from."""
    card = saved.get("card")
    found = card.get("learned_from") if isinstance(card, dict) else None
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def refuse_unproven(saved: Mapping[str, object], option: str) -> None:
    """Refuses a program that was not significantly better than the plain one on pairs it did not learn from.

    Raises:
        PalimpsestError: its card has no paired test, or one that it does not pass.
    """
    card = saved.get("card")
    paired = card.get("paired") if isinstance(card, dict) else None
    if not isinstance(paired, dict):
        raise PalimpsestError(f"{option}: its card has no paired test on unseen pairs; save it with notebook 2")
    found = PairedResult(**paired)
    if found.better <= found.worse or found.p >= ALPHA:
        raise PalimpsestError(
            f"{option}: no better than the plain program on {found.pairs} unseen pairs (right where that is wrong:"
            f" {found.better}, wrong where that is right: {found.worse}, p = {found.p:.2g}); it is not installed"
        )


def home_programs(home: Home) -> Path:
    """Returns the folder of the programs that notebook 2 made; the repository gets one by `use_program`."""
    return home.path / "programs" / "relation"


def find_program(name: str, home: Home | None = None) -> Path:
    """Returns the file of a program of this project, else of the home."""
    file = f"{Path(name).name}.json"
    ours = program_folder() / file
    return ours if home is None or ours.is_file() else home_programs(home) / file


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
        raise PalimpsestError(f"{option} {name}: no such file in {program_folder()}; notebook 2 saves one")
    refuse_fake_program(saved, f"{option} {name}")
    return saved


def card_markdown(name: str, card: Mapping[str, object]) -> str:
    """Returns a score card for people."""
    lines = [f"# Relation program `{name}`", "", str(card["why"]), ""]
    before, paired = card["baseline"], card["paired"]
    assert isinstance(before, Mapping) and isinstance(paired, Mapping)
    lines += [
        f"Figures with the model `{card['model']}` on {card['pairs']} pairs that it did not learn from:",
        "",
        "| program | macro-F1 (95 % interval) | UPDATE recall | falsely retired | readable answers | tokens a pair |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_figure_row(label, figures) for label, figures in (("before", before), ("this program", card))]
    test = f"Right where the other is wrong: {paired['better']}, the reverse: {paired['worse']}, p = {paired['p']:.2g}."
    return "\n".join([*lines, "", test, "", UNMEASURED, ""])


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
