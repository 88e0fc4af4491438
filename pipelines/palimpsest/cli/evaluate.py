"""Commands that evaluate: the gate and its baseline, invariants, comparisons, suites, benchmarks."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from palimpsest.cli.shared import FOLDER, STRATEGY, CostParam, Output, common, embedder_option, why_closed
from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from palimpsest_eval.bench.synthetic import Kind


@click.command(short_help="Judge a build against the committed baseline.")
@common
@click.option("--baseline", "baseline_file", type=FOLDER, help="Judge the collection of this baseline by it.")
@click.option("--markdown", "markdown_file", type=FOLDER, help="Write the verdict for a pull request here.")
@click.option("--report", "report_file", type=FOLDER, help="Write the report, one HTML page, here.")
@click.option("--labels", is_flag=True, help="Judge the labeler instead, on the golden pairs kept for it.")
@click.option("--program", help="With --labels: a saved LM program; it becomes the default where it passes.")
@click.option("--init", is_flag=True, help="Draft first golden questions from the build, to be edited; judge nothing.")
@click.option("--collection", help="With --init: only this collection. [default: all without golden questions]")
@click.option("--questions", type=click.IntRange(1, 1000), default=20, show_default=True, help="With --init: how many.")
def gate(
    home_path: Path,
    as_json: bool,
    backend: str,
    baseline_file: Path | None,
    markdown_file: Path | None,
    report_file: Path | None,
    labels: bool,
    program: str | None,
    init: bool,
    collection: str | None,
    questions: int,
) -> None:
    """Judge the staged, else the published build against the committed baseline."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest_eval.runs.judge_build import judge_home

    out = Output(as_json)
    if init:
        _draft_questions(out, Home(home_path), collection, questions)
        return
    if collection:
        raise PalimpsestError(f"--collection {collection}: only valid with --init; the gate judges every collection")
    if labels or program:
        _gate_labels(out, Home(home_path), program)
        return
    verdict = judge_home(Home(home_path), baseline_file, report_file)
    if markdown_file:
        try:
            markdown_file.write_text(verdict.markdown(), encoding="utf-8")
        except OSError as e:
            raise PalimpsestError(f"--markdown {markdown_file}: {e.strerror}; name another") from None
    out.text(verdict.markdown())
    out.result(verdict.to_json())
    if verdict.exit_code:
        reasons = [
            r for v in verdict.collections for r in (*v.reasons, *(v.warnings if v.status == "unjudged" else ()))
        ]
        raise Refused(f"gate: {verdict.status}: {why_closed(verdict.settings_changed, reasons)}")


def _draft_questions(out: Output, home: Home, collection: str | None, count: int) -> None:
    from palimpsest_eval.runs.drafts import init_golden, next_steps

    written = init_golden(home, collection, count)
    out.text(
        "\n".join([*(f"wrote {n} drafts: {path}" for path, n in written.items()), next_steps(home, list(written))])
    )
    out.result({"drafts": written})


def _gate_labels(out: Output, home: Home, program: str | None) -> None:
    from palimpsest_eval.labels.label_gate import judge_home_labels

    verdict = judge_home_labels(home, program)
    out.text(verdict.text())
    out.result(verdict.to_json())
    if verdict.reasons:
        raise Refused(f"gate: labels: {'; '.join(verdict.reasons)}")


@click.group(short_help="The accepted run that later builds are judged by.")
def baseline() -> None:
    """The committed run that later builds must not fall behind."""


@baseline.command(short_help="Make the newest run the baseline that gates judge by.")
@common
@click.option("--why", required=True, help="The reason, for those who read the history.")
@click.option("--labels", is_flag=True, help="Write the labeler's figures instead.")
def accept(home_path: Path, as_json: bool, backend: str, why: str, labels: bool) -> None:
    """Write the staged, else the published build's run as the new baseline."""
    from palimpsest_eval.labels.label_gate import accept_labels
    from palimpsest_eval.runs.accept_home import AcceptedBaseline, accept_home, next_steps

    out, home = Output(as_json), Home(home_path)
    written = [AcceptedBaseline(accept_labels(home, why), "")] if labels else accept_home(home, why)
    steps = next_steps(home, written)
    out.text("\n".join([*(a.text() for a in written), steps]))
    dropped = {a.path.stem: list(a.dropped) for a in written if a.dropped}
    out.result({"baselines": [str(a.path) for a in written], "dropped": dropped, "next": steps})


@click.command(short_help="Show what changed between two builds.")
@common
@click.argument("build_a")
@click.argument("build_b")
def compare(home_path: Path, as_json: bool, backend: str, build_a: str, build_b: str) -> None:
    """Show what changed between two builds: memories, relations, metrics, queries."""
    from palimpsest_eval.runs.compare_builds import compare_builds

    out = Output(as_json)
    found, text = compare_builds(Home(home_path), build_a, build_b)
    out.text(text)
    out.result(found)


@click.command(short_help="Check every invariant on this home.")
@common
def verify(home_path: Path, as_json: bool, backend: str) -> None:
    """Check every invariant on this home, and with --backend neo4j what Neo4j shows of it."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest_eval.runs.verify_home import verify_home

    out = Output(as_json)
    found = verify_home(Home(home_path))
    violations = found.lines
    if backend == "neo4j":
        from palimpsest.neo4j_graph.published_graph import check_published

        violations += check_published(Home(home_path))
    out.text("\n".join([*violations, f"build {found.build_id}: {len(violations)} violations"]))
    out.result(found.to_json() | {"violations": violations})
    if violations:
        raise Refused(f"verify: {len(violations)} violations, the first: {violations[0]}")


@click.command(short_help="Measure retrieval on a public or own test set.")
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
    home_path: Path,
    as_json: bool,
    backend: str,
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

    out = Output(as_json)
    if max_cost is not None and not ragas:
        raise PalimpsestError(f"--max-cost {max_cost}: only --ragas calls a model; add it")
    if ragas and ablation:
        raise PalimpsestError("--ragas judges one strategy, --ablation runs several; pass only one of them")
    if not ablation:
        wanted = suite_runs.RagasOptions(lm_questions, max_cost) if ragas else None
        done = suite_runs.measure(folder, extra, strategy, budget, per_query, backend, wanted, embedder)
        out.text(done.text())
        out.result(done.to_json())
        return
    if backend != "duckdb":
        raise PalimpsestError(f"--ablation --backend {backend}: stages are measured on duckdb; leave --backend out")
    from palimpsest_eval.runs.ablation import ablation_text

    done, rows = suite_runs.ablate(folder, extra, budget, per_query, embedder)
    out.text(ablation_text(done.suite, done.queries, rows))
    out.result(done.to_json() | {"ablation": rows})


@click.command(short_help="Measure query speed on a generated home.")
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
def bench(
    home_path: Path,
    as_json: bool,
    backend: str,
    memories: int | None,
    strategy: str,
    kind: "Kind",
    users: int,
    clients: int,
    hops: int,
    narrow: bool,
) -> None:
    """Measure the query path on a seeded home of this many memories."""
    import tempfile

    from palimpsest_eval.bench.bench_report import QueryLoad
    from palimpsest_eval.bench.run_bench import run_bench

    out = Output(as_json)
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        load = QueryLoad(strategy, clients, backend, hops, narrow)
        memories = memories or (300 if kind == "pages" else 100_000)
        done = run_bench(memories, load, users=users, kind=kind, workdir=Path(folder))
    out.text(done.text())
    out.result(done.to_json())
