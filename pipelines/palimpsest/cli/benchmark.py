"""`palimpsest benchmark`: published benchmarks of memory."""

from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, STRATEGY, Output, common, embedder_option
from palimpsest_eval.suites.benchmarks.benchmarks import BENCHMARKS


@click.command(short_help="Measure retrieval on a published benchmark, as it defines it.")
@common
@click.argument("name", type=click.Choice(list(BENCHMARKS)))
@click.argument("path", type=FOLDER)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True)
@click.option(
    "--k",
    "cutoffs",
    type=click.IntRange(1, 100),
    multiple=True,
    help="A cutoff; may be repeated. [default: the benchmark's]",
)
@embedder_option
def benchmark(
    home_path: Path,
    as_json: bool,
    backend: str,
    name: str,
    path: Path,
    strategy: str,
    cutoffs: tuple[int, ...],
    embedder: str | None,
) -> None:
    """Build a benchmark's data in a throw-away home, cached by content and code, and measure retrieval on it.

    PATH is what the benchmark distributes: a file of LongMemEval, LoCoMo or MemConflict, a folder of chats or a Parquet
    table of BEAM, the folder of a task of LMEB; or a suite that was made of it. docs/benchmarks.md has where each is
    from and what is measured.
    """
    from palimpsest_eval.runs.benchmark_runs import measure_benchmark

    out = Output(as_json)
    done = measure_benchmark(name, path, strategy, sorted(set(cutoffs)), embedder, backend)
    out.text(done.text())
    out.result(done.to_json())
