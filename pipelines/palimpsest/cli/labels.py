"""Commands that label pairs of texts: a file of pairs, and a trial of a language model's program."""

from pathlib import Path

import click
from click.core import ParameterSource

from palimpsest.cli.shared import FOLDER, CostParam, Output, common
from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import Home


@click.group(invoke_without_command=True, subcommand_metavar="[tune [OPTIONS]]", short_help="Label pairs of texts.")
@common
@click.option(
    "--pairs", "pairs_file", type=FOLDER, help="JSONL: id, older, newer[, older_date, newer_date].  [required]"
)
@click.option("--out", "out_file", type=FOLDER, help="The same lines with predicted, confidence, labeler.  [required]")
@click.option("--labeler", type=click.Choice(["offline", "dspy", "cascade"]), default="offline", show_default=True)
@click.option("--train", "train_file", type=FOLDER, help="Labelled pairs; a classifier trained on them labels.")
@click.option("--max-cost", type=CostParam(), help="What the LM may cost; pairs beyond it are not labelled.")
@click.pass_context
def label(
    context: click.Context,
    home_path: Path,
    as_json: bool,
    backend: str,
    pairs_file: Path | None,
    out_file: Path | None,
    labeler: str,
    train_file: Path | None,
    max_cost: float | None,
) -> None:
    """Label pairs of texts UPDATE, EXTEND, DERIVE or NONE."""  # noqa: DOC501 (the docstring is the help text)
    if context.invoked_subcommand is not None:
        _refuse_misplaced_options(context, context.invoked_subcommand)
        return
    if pairs_file is None or out_file is None:
        raise PalimpsestError(f"label: {'--pairs' if pairs_file is None else '--out'} is required; name a file")
    from palimpsest_eval.labels.label_file import label_file

    out = Output(as_json)
    done = label_file(pairs_file, out_file, labeler, train_file, max_cost, home_path)
    seconds = done.seconds.load + done.seconds.features + done.seconds.predict
    out.text(f"{done.pairs} pairs labelled in {seconds:.2f} s: {out_file}")
    if done.metrics is not None:
        out.text(done.metrics.text())
    out.result(done.to_json())


def _refuse_misplaced_options(context: click.Context, subcommand: str) -> None:
    for parameter in context.command.params:
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            option = parameter.opts[0]
            raise PalimpsestError(f"{option}: must come after {subcommand}: palimpsest label {subcommand} {option} ...")


@label.command(short_help="Try a language model's program next to the offline labeler.")
@common
@click.option(
    "--pairs",
    default="golden",
    show_default=True,
    help="Labelled pairs: a JSONL file, a folder of them, golden (the checked-in training pairs), or home (what people"
    " decided there).",
)
@click.option(
    "--sample",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="How many of them. 0, with --save: run none, call no model.",
)
@click.option("--program", help="A saved program. [default: the one that builds use]")
@click.option("--demonstrations", type=click.IntRange(0, 64), help="Compile a program with so many of --train instead.")
@click.option("--train", default="golden", show_default=True, help="Labelled pairs, as --pairs, for demonstrations.")
@click.option("--save", metavar="NAME", help="Save the compiled program with its score card under this name.")
@click.option("--max-cost", type=CostParam(), help="What the LM may cost; pairs beyond it are left out.")
@click.option("--out", "out_file", type=FOLDER, help="Write the pairs with both labels here, as JSONL.")
def tune(
    home_path: Path,
    as_json: bool,
    backend: str,
    pairs: str,
    sample: int,
    program: str | None,
    demonstrations: int | None,
    train: str,
    save: str | None,
    max_cost: float | None,
    out_file: Path | None,
) -> None:
    """Run a language model's program on labelled pairs.

    Shows its cost, its agreement with the offline labeler, where the two differ, and the figures of both.
    """
    from palimpsest_eval.labels.tune import TuneOptions, write_both_labels
    from palimpsest_eval.labels.tune import tune as run_tune

    out = Output(as_json)
    report = run_tune(Home(home_path), TuneOptions(pairs, sample, program, demonstrations or 0, train, save, max_cost))
    if out_file is not None and report.comparison is not None:
        write_both_labels(out_file, report.comparison)
    out.text(report.text())
    out.result(report.to_json())
