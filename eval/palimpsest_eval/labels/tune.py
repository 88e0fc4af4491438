"""`palimpsest label tune`: a relation program on labeled pairs, within a budget, next to the offline labeler."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.relations.classify.golden_pairs import golden_pairs
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_settings import lm_settings
from palimpsest.relations.classify.offline_labeler import offline_labeler
from palimpsest.relations.classify.pairs_file import PairRow, group_of, write_pairs_file
from palimpsest.store.home import Home
from palimpsest_eval.labels.few_shot import choose_demonstrations, few_shot_program
from palimpsest_eval.labels.label_tuning import labelled_rows
from palimpsest_eval.labels.labeler_comparison import LabelerComparison, compare_with_offline
from palimpsest_eval.labels.program_trial import ProgramTrial, sample_rows, try_program
from palimpsest_eval.labels.saved_programs import CompiledFrom, read_program, save_program

_SEED = 0


@dataclass(frozen=True)
class TuneOptions:
    """Options of `palimpsest label tune`.

    Attributes:
        pairs: labeled pairs to run on, see `labelled_rows`.
        sample: how many of them; 0 saves a compiled program without a run, and needs no model.
        program: a saved program; None means the one that builds use.
        demonstrations: compile a program with this many demonstrations instead; 0 compiles none.
        train: labeled pairs to take demonstrations from, see `labelled_rows`.
        save: name under which the compiled program is saved.
        max_cost: money that may be spent now; None means no limit.
    """

    pairs: str = "golden"
    sample: int = 100
    program: str | None = None
    demonstrations: int = 0
    train: str = "golden"
    save: str | None = None
    max_cost: float | None = None


@dataclass(frozen=True)
class TuneReport:
    """The comparison, the trial before the compilation where there was one, and the file of a saved program."""

    comparison: LabelerComparison | None
    before: ProgramTrial | None
    saved: Path | None

    def to_json(self) -> JsonObject:
        """Returns the JSON of `palimpsest label tune`."""
        report = self.comparison.to_json() if self.comparison is not None else {}
        if self.before is not None:
            report["before"] = {"program": self.before.program, "figures": self.before.metrics.to_json()}
        return report | ({"saved": str(self.saved)} if self.saved else {})

    def text(self) -> str:
        """Returns the report for people."""
        lines = [self.comparison.text()] if self.comparison is not None else []
        if self.comparison is not None and self.before is not None:
            old, new = self.before.metrics.macro_f1, self.comparison.trial.metrics.macro_f1
            lines.append(f"macro-F1 without demonstrations {old:.3f}, with them {new:.3f}")
        return "\n".join([*lines, *([f"saved: {self.saved}"] if self.saved else [])])


def tune(home: Home, options: TuneOptions) -> TuneReport:
    """Runs a program, or the one compiled now, on a sample of labeled pairs.

    The sample has no pair of a group that a demonstration is of. With `save`, the program without demonstrations runs
    on the same pairs first: the score card has both.

    Raises:
        PalimpsestError: an option, a file or the setting of the model is unusable.
    """
    if options.save and not options.demonstrations:
        raise PalimpsestError("--save: only valid with --demonstrations, which compiles a program")
    if options.program and options.demonstrations:
        raise PalimpsestError("--program: not valid with --demonstrations, which compiles another one")
    if options.save and Path(options.save).name != options.save:
        raise PalimpsestError(f"--save {options.save}: must be a name without folders")
    if not options.sample and not options.save:
        raise PalimpsestError("--sample 0: only valid with --save; nothing would be done")
    state, demonstrations = _choose_program(home, options)
    if not options.sample:
        return TuneReport(None, None, _save(options, state, demonstrations, None, None))
    settings, ledger = lm_settings(), Ledger(home.lm_ledger)
    rows = labelled_rows(home, options.pairs)
    used = {group_of(r) for r in demonstrations}
    sample = sample_rows([r for r in rows if group_of(r) not in used], options.sample, _SEED)
    if not sample:
        raise PalimpsestError(f"--pairs {options.pairs}: no pair left to run on; name other pairs")
    left, before = options.max_cost, None
    if options.save:
        before = try_program(sample, settings, ledger, max_cost=left)
        left = None if left is None else max(0.0, left - before.usage.cost)
    trial = try_program(sample, settings, ledger, state=state, max_cost=left)
    comparison = compare_with_offline(trial, offline_labeler(none_odds=1.0), golden_pairs("train"))
    saved = _save(options, state, demonstrations, trial, before) if options.save else None
    return TuneReport(comparison, before, saved)


def _save(
    options: TuneOptions,
    state: JsonObject | None,
    demonstrations: Sequence[PairRow],
    trial: ProgramTrial | None,
    before: ProgramTrial | None,
) -> Path:
    assert state is not None
    ids = [r["id"] for r in demonstrations]
    compiled = CompiledFrom("LabeledFewShot", _describe_pairs(options.train), ids, _SEED)
    why = f"{len(ids)} labeled pairs as demonstrations; `palimpsest label tune --demonstrations {len(ids)}`."
    return save_program(state, trial, why, None, options.save, compiled, before)


def _choose_program(home: Home, options: TuneOptions) -> tuple[JsonObject | None, Sequence[PairRow]]:
    """Returns the program's state, None for the one that builds use, and the pairs that are its demonstrations."""
    if options.demonstrations:
        rows = labelled_rows(home, options.train)
        chosen = choose_demonstrations(rows, options.demonstrations, _SEED)
        return few_shot_program(rows, options.demonstrations, _SEED), chosen
    if options.program is None:
        return None, ()
    saved = read_program(options.program)
    card = saved.get("card")
    compiled = card.get("compiled_from") if isinstance(card, dict) else None
    ids = set(compiled["demonstrations"]) if isinstance(compiled, dict) else set()
    state = saved["state"]
    assert isinstance(state, dict)
    rows = [r for r in labelled_rows(home, options.pairs) if r["id"] in ids]
    return state, rows


def _describe_pairs(source: str) -> str:
    return {"golden": "the checked-in training pairs", "home": "what people decided in a home"}.get(source, source)


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
