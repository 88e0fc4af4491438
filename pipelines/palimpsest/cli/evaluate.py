"""Commands that evaluate: the gate and its baseline, invariants, comparisons, suites, benchmarks, labels, health."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from palimpsest.cli.shared import FOLDER, STRATEGY, Call, CostParam, Output, common, embedder_option
from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.core.files import counted
from palimpsest.core.times import readable
from palimpsest.store.home import Home
from palimpsest_eval.suites.score_benchmark import BENCHMARKS

if TYPE_CHECKING:
    from palimpsest_eval.bench.synthetic import Kind


@click.command()
@common
@click.option("--baseline", "baseline_file", type=FOLDER, help="Judge the collection of this baseline by it.")
@click.option("--markdown", "markdown_file", type=FOLDER, help="Write the verdict for a pull request here.")
@click.option("--junit", "junit_file", type=FOLDER, help="Write the verdict as JUnit's XML here: a case for each row.")
@click.option("--report", "report_file", type=FOLDER, help="Write the report, one HTML page, here.")
@click.option("--labels", is_flag=True, help="Judge the labeler instead, on the golden pairs kept for it.")
@click.option("--program", help="With --labels: a saved LM program; it becomes the default where it passes.")
@click.option("--init", is_flag=True, help="Draft first golden questions from the build, to be edited; judge nothing.")
@click.option("--collection", help="With --init: only this collection. [default: all without golden questions]")
@click.option("--questions", type=click.IntRange(1, 1000), default=20, show_default=True, help="With --init: how many.")
def gate(
    call: Call,
    baseline_file: Path | None,
    markdown_file: Path | None,
    junit_file: Path | None,
    report_file: Path | None,
    labels: bool,
    program: str | None,
    init: bool,
    collection: str | None,
    questions: int,
) -> None:
    """Judge the staged, else the published build against the committed baseline."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest_eval.runs.judge_build import judge_home

    if init:
        _draft_questions(call, call.home, collection, questions)
        return
    if collection:
        raise PalimpsestError(f"--collection {collection}: only valid with --init; the gate judges every collection")
    if labels or program:
        _gate_labels(call, call.home, program)
        return
    verdict = judge_home(call.home, baseline_file, report_file)
    for option, path, write in (
        ("--markdown", markdown_file, verdict.markdown),
        ("--junit", junit_file, verdict.junit),
    ):
        try:
            if path:
                path.write_text(write(), encoding="utf-8")
        except OSError as e:
            raise PalimpsestError(f"{option} {path}: {e.strerror}; name another") from None
    if os.environ.get("GITHUB_ACTIONS") == "true":
        click.echo("\n".join(verdict.annotations()))
    if not call.as_json:
        call.text(verdict.text())
    call.result(verdict.to_json())
    if verdict.exit_code:
        first, *lines = verdict.summary()
        raise Refused(first, lines)


def _draft_questions(out: Output, home: Home, collection: str | None, count: int) -> None:
    from palimpsest_eval.runs.drafts import init_golden, next_steps

    written = init_golden(home, collection, count)
    out.text(
        "\n".join(
            [*(f"wrote {counted(n, 'draft')}: {path}" for path, n in written.items()), next_steps(home, list(written))]
        )
    )
    out.result({"drafts": written})


def _gate_labels(out: Output, home: Home, program: str | None) -> None:
    from palimpsest_eval.labels.label_gate import judge_home_labels

    verdict = judge_home_labels(home, program)
    out.show(verdict.text(), verdict.to_json())
    if verdict.reasons:
        raise Refused(f"gate: labels: {'; '.join(verdict.reasons)}")


@click.group()
def baseline() -> None:
    """The committed run that later builds must not fall behind."""


@baseline.command(short_help="Make the newest run the baseline that gates judge by.")
@common
@click.option("--why", required=True, help="The reason, for those who read the history.")
@click.option("--labels", is_flag=True, help="Write the labeler's figures instead.")
def accept(call: Call, why: str, labels: bool) -> None:
    """Write the staged, else the published build's run as the new baseline."""
    from palimpsest_eval.labels.label_gate import accept_labels
    from palimpsest_eval.runs.judge_build import AcceptedBaseline, accept_home, next_steps

    written = [AcceptedBaseline(accept_labels(call.home, why), "")] if labels else accept_home(call.home, why)
    steps = next_steps(call.home, written)
    call.text("\n".join([*(a.text() for a in written), steps]))
    dropped = {a.path.stem: list(a.dropped) for a in written if a.dropped}
    call.result({"baselines": [str(a.path) for a in written], "dropped": dropped, "next": steps})


@click.command()
@common
@click.argument("build_a")
@click.argument("build_b")
def compare(call: Call, build_a: str, build_b: str) -> None:
    """Show what changed between two builds: memories, relations, metrics, queries."""
    from palimpsest_eval.runs.judge_build import compare_builds

    found, text = compare_builds(call.home, build_a, build_b)
    call.show(text, found)


@click.command()
@common
def verify(call: Call) -> None:
    """Check every invariant on this home, and with --backend neo4j what Neo4j shows of it."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest_eval.runs.judge_build import verify_home

    found = verify_home(call.home)
    violations = found.lines
    if call.backend == "neo4j":
        from palimpsest.neo4j_graph.published_graph import check_published

        violations += check_published(call.home)
    call.text("\n".join([*violations, f"build {found.build_id}: {counted(len(violations), 'violation')}"]))
    call.result(found.to_json() | {"violations": violations})
    if violations:
        raise Refused(f"verify: {counted(len(violations), 'violation')}, the first: {violations[0]}")


@click.command()
@common
@click.argument("folder", type=FOLDER)
@click.option("--extra", type=FOLDER, help="JSONL of more corpus rows.")
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True)
@click.option("--budget", type=click.IntRange(50), default=1200, show_default=True, help="Tokens of packed context.")
@click.option("--per-query", type=FOLDER, help="Write one JSON line for each query here.")
@click.option("--ablation", is_flag=True, help="Measure the query path stage by stage.")
@click.option("--ragas", is_flag=True, help="Cross-check with RAGAS, by ids; with PALIMPSEST_LM by the model too.")
@click.option(
    "--lm-questions", type=click.IntRange(1), default=50, show_default=True, help="Questions that the model judges."
)
@click.option("--max-cost", type=CostParam(), help="What the model may cost; questions beyond it are left out.")
@embedder_option
def suite(
    call: Call,
    folder: Path,
    extra: Path | None,
    strategy: str,
    budget: int,
    per_query: Path | None,
    ablation: bool,
    ragas: bool,
    lm_questions: int,
    max_cost: float | None,
    embedder: str | None,
) -> None:
    """Build a suite in a throw-away home, cached by content and code, and measure retrieval on it.

    FOLDER is a suite, a folder of BEIR, BEAM or LMEB, a file of LoCoMo, LongMemEval, BEAM, MemConflict, HotpotQA,
    2WikiMultihopQA or MuSiQue, or a golden set, data/golden/NAME.jsonl.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest_eval.runs import suite_runs

    if max_cost is not None and not ragas:
        raise PalimpsestError(f"--max-cost {max_cost}: only --ragas calls a model; add it")
    if ragas and ablation:
        raise PalimpsestError("--ragas judges one strategy, --ablation runs several; pass only one of them")
    if not ablation:
        wanted = suite_runs.RagasOptions(lm_questions, max_cost) if ragas else None
        done = suite_runs.measure(folder, extra, strategy, budget, per_query, call.backend, wanted, embedder)
        call.show(done.text(), done.to_json())
        return
    if call.backend != "duckdb":
        raise PalimpsestError(
            f"--ablation --backend {call.backend}: stages are measured on duckdb; leave --backend out"
        )
    from palimpsest_eval.runs.ablation import ablation_text

    done, rows = suite_runs.ablate(folder, extra, budget, per_query, embedder)
    call.show(ablation_text(done.suite, done.queries, rows), done.to_json() | {"ablation": rows})


@click.command()
@common
@click.option("--memories", type=click.IntRange(100), help="[default: 100000; 300 of --kind pages]")
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True)
@click.option(
    "--kind",
    type=click.Choice(["turns", "titled", "pages"]),
    default="turns",
    show_default=True,
    help="Short turns, titled passages, or titled pages of some 1,500 tokens.",
)
@click.option("--users", type=click.IntRange(1), default=50, show_default=True, help="Scopes, of Zipf size.")
@click.option("--clients", type=click.IntRange(1), default=1, show_default=True, help="Clients at once.")
@click.option("--hops", type=click.IntRange(0, 2), default=1, show_default=True, help="Links to follow from the best.")
@click.option("--narrow", is_flag=True, help="With --strategy hierarchical: only memories of the nodes found.")
@click.option("--pending", type=click.IntRange(1, 10_000), help="Measure this home beside so many pending memories.")
@click.option("--service", is_flag=True, help="Search over REST and MCP, a user for each of --clients.")
@click.option(
    "--profile", "profile_folder", type=FOLDER, help="Time the stages of a build of this home; flame graphs here."
)
def bench(
    call: Call,
    memories: int | None,
    strategy: str,
    kind: "Kind",
    users: int,
    clients: int,
    hops: int,
    narrow: bool,
    pending: int | None,
    service: bool,
    profile_folder: Path | None,
) -> None:
    """Measure the query path on a seeded home of this many memories; with --pending or --profile, the home itself."""  # noqa: DOC501 (the docstring is the help text)
    import tempfile

    if profile_folder is not None:
        from palimpsest_eval.bench.measure_profile import measure_profile

        profile = measure_profile(call.home, profile_folder)
        call.show(profile.text(), profile.to_json())
        return
    if pending is not None:
        from palimpsest_eval.bench.measure_pending import measure_pending

        figures = measure_pending(call.home, pending)
        call.show(figures.text(), figures.to_json())
        return

    from palimpsest_eval.bench.bench_report import QueryLoad
    from palimpsest_eval.bench.run_bench import run_bench

    if service:
        from palimpsest_eval.bench.measure_service import measure_service

        if (strategy, kind, users, hops, narrow, call.backend) != ("auto", "turns", 50, 1, False, "duckdb"):
            raise PalimpsestError("--service: takes --memories and --clients alone; leave the others out")
        served = measure_service(memories or 100_000, clients)
        call.show(served.text(), served.to_json())
        return
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        load = QueryLoad(strategy, clients, call.backend, hops, narrow)
        memories = memories or (300 if kind == "pages" else 100_000)
        done = run_bench(memories, load, users=users, kind=kind, workdir=Path(folder))
    call.show(done.text(), done.to_json())


# `palimpsest benchmark`: published benchmarks of memory.


@click.command()
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
def benchmark(call: Call, name: str, path: Path, strategy: str, cutoffs: tuple[int, ...], embedder: str | None) -> None:
    """Build a benchmark's data in a throw-away home, cached by content and code, and measure retrieval on it.

    PATH is what the benchmark distributes: a file of LongMemEval, LoCoMo or MemConflict, a folder of chats or a Parquet
    table of BEAM, the folder of a task of LMEB; or a suite that was made of it. docs/benchmarks.md has where each is
    from and what is measured.
    """
    from palimpsest_eval.runs.suite_runs import measure_benchmark

    done = measure_benchmark(name, path, strategy, sorted(set(cutoffs)), embedder, call.backend)
    call.show(done.text(), done.to_json())


# The commands `palimpsest health` and `palimpsest metrics`: figures of a home for people and for Prometheus.


@click.command()
@common
@click.option("--report", "report_file", type=FOLDER, help="Write the report, one HTML page, here.")
def health(call: Call, report_file: Path | None) -> None:
    """Show the health of the published build; each night's report is in the home, health/report.html."""
    from palimpsest_eval.report.health_page import CARDS, format_number
    from palimpsest_eval.runs.home_metrics import health_of, write_health

    found = health_of(call.home)
    if report_file:
        write_health(found, report_file)
    numbers = found.numbers
    lines = [
        f"{title:<18}{format_number(numbers.get(name), form):>14}  {explanation}"
        for name, title, explanation, form in CARDS
    ]
    call.text("\n".join([f"build {found.build_id}, {readable(found.created_at)}, gate {found.status}", *lines]))
    call.result(found.to_json())


@click.command()
@common
@click.option("--out", "out_file", type=FOLDER, help="Write them here, for node_exporter's textfile collector.")
def metrics(call: Call, out_file: Path | None) -> None:
    """Print build age, memories, gate, latencies, rejects and seconds by stage in Prometheus' text format."""
    from palimpsest_eval.runs.home_metrics import metrics_text, write_metrics

    if out_file:
        write_metrics(call.home, out_file)
        call.show(f"wrote {out_file}", {"out": str(out_file)})
        return
    text = metrics_text(call.home)
    call.show(text.rstrip(), {"metrics": text})


# Commands that label pairs of texts: a file of pairs, and a trial of a language model's program.


@click.group(invoke_without_command=True, subcommand_metavar="[tune [OPTIONS]]")
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
    call: Call,
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

    done = label_file(pairs_file, out_file, labeler, train_file, max_cost, call.home_path)
    seconds = done.seconds.load + done.seconds.features + done.seconds.predict
    call.text(f"{counted(done.pairs, 'pair')} labelled in {seconds:.2f} s: {out_file}")
    if done.metrics is not None:
        call.text(done.metrics.text())
    call.result(done.to_json())


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
@click.option("--sample", type=click.IntRange(1), default=100, show_default=True, help="How many of them.")
@click.option("--program", help="A saved program. [default: the one that builds use]")
@click.option("--max-cost", type=CostParam(), help="What the LM may cost; pairs beyond it are left out.")
@click.option("--out", "out_file", type=FOLDER, help="Write the pairs with both labels here, as JSONL.")
def tune(
    call: Call,
    pairs: str,
    sample: int,
    program: str | None,
    max_cost: float | None,
    out_file: Path | None,
) -> None:
    """Run a language model's program on labelled pairs.

    Shows its cost, its agreement with the offline labeler, where the two differ, and the figures of both.
    """
    from palimpsest_eval.labels.tune import TuneOptions, write_both_labels
    from palimpsest_eval.labels.tune import tune as run_tune

    report = run_tune(call.home, TuneOptions(pairs, sample, program, max_cost))
    if out_file is not None:
        write_both_labels(out_file, report)
    call.show(report.text(), report.to_json())
