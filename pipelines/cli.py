"""`palimpsest`: a thin skin over the Python functions, one verb a command.

Exit codes: 0 done, 1 the gate or verify said no, 2 bad input or usage, 3 a component failed. Results go to stdout,
progress to stderr; with --json the last line of stdout is one JSON object.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pipelines.errors import PalimpsestError, Refused
from pipelines.store.home import DEFAULT_HOME, Home

_FOLDER = click.Path(path_type=Path)


class Output:
    """Where a command's result goes: text for people, or one JSON line."""

    def __init__(self, as_json: bool):
        self.as_json = as_json

    def text(self, text: str) -> None:
        """Writes text for people; with --json it goes to stderr, so that stdout stays for machines."""
        click.echo(text, err=self.as_json)

    def result(self, value: dict[str, Any]) -> None:
        """Writes the result as the last line of stdout, where --json was asked for."""
        if self.as_json:
            click.echo(json.dumps(value, sort_keys=True, default=str))


def common(f: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --home, --json and --backend to a command."""
    f = click.option("--backend", type=click.Choice(["duckdb"]), default="duckdb", help="Where queries are answered.")(
        f
    )
    f = click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line of stdout.")(f)
    return click.option(
        "--home", "home_path", type=_FOLDER, default=lambda: os.environ.get("PALIMPSEST_HOME") or DEFAULT_HOME,
        help="Folder that holds everything a build writes. [default: $PALIMPSEST_HOME, else data/home]",
    )(f)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="palimpsest")
def cli() -> None:
    """Builds and evaluates a versioned knowledge graph of memories."""


@cli.command()
@common
@click.option("--corpus", "corpora", type=_FOLDER, multiple=True, help="Folder of collections. [default: data/corpora]")
@click.option("--collection", "only", multiple=True, help="Build only this collection.")
@click.option("--allow-rejects", is_flag=True, help="Exit 0 although some sources could not be read.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def build(
    home_path: Path,
    as_json: bool,
    backend: str,
    corpora: tuple[Path, ...],
    only: tuple[str, ...],
    allow_rejects: bool,
    dry_run: bool,
) -> None:
    """Run the asset graph: read, embed, relate, version, index, judge, publish."""
    from pipelines import report, run

    out, home = Output(as_json), Home(home_path)
    if dry_run:
        plan = report.dry_run(home, list(corpora) or None, list(only) or None)
        out.text(report.dry_run_text(plan))
        out.result(plan)
        return
    done = run.build(home, list(corpora) or None, list(only) or None)
    out.text(report.build_text(done))
    if done["rejects"]:
        out.text(report.rejects_text(home))
    out.result(done)
    if done["gate"]["status"] == "failed":
        raise Refused(
            f"gate: {'; '.join(done['gate']['reasons'][:3])}; build {done['build_id']} is staged, not published"
        )
    if done["rejects"] and not allow_rejects:
        raise PalimpsestError(
            f"{done['rejects']} sources were rejected (listed above); mend or remove them, or pass --allow-rejects"
        )


@cli.command()
@common
@click.argument("text")
@click.option("--collection", help="Collection to search. [default: the only one, or the one marked default]")
@click.option("--user", help="Whose memories. [default: the collection's user_id]")
@click.option("--project", help="Only memories of this project.")
@click.option("--session", help="Only memories of this session.")
@click.option("--k", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many memories.")
@click.option(
    "--hops", type=click.IntRange(0, 2), default=1, show_default=True, help="Relations followed from the seeds."
)
@click.option(
    "--strategy", type=click.Choice(["auto", "flat", "hybrid"]), default="auto", show_default=True, help="How to rank."
)
@click.option("--as-of", help="What was latest on this date (ISO 8601).")
@click.option("--history", is_flag=True, help="Also memories that are no longer latest.")
@click.option("--type", "type_", help="Only memories of this type.")
@click.option("--tag", help="Only memories with this tag.")
@click.option("--since", help="Only memories observed on or after this date.")
@click.option("--until", help="Only memories observed on or before this date.")
@click.option("--now", help="The date that relative dates in the question refer to.")
@click.option("--budget", type=click.IntRange(50), default=1200, show_default=True, help="Tokens of packed context.")
@click.option("--explain", is_flag=True, help="Say why each memory is there.")
def query(
    home_path: Path,
    as_json: bool,
    backend: str,
    text: str,
    collection: str | None,
    user: str | None,
    explain: bool,
    **filters: Any,
) -> None:
    """Search one scope: ranked memories, then the packed, cited context."""
    from pipelines.query import present
    from pipelines.query.api import open_home

    out = Output(as_json)
    with open_home(home_path, backend=backend) as reader:
        scope = reader.resolve_scope(collection, user)
        filters["type"] = filters.pop("type_")
        filters["budget_tokens"] = filters.pop("budget")
        results = reader.search(text, scope, explain=explain, **filters)
        out.text(present.results_text(results, explain))
        out.result(present.results_json(results))


@cli.command()
@common
@click.argument("folder", type=_FOLDER)
@click.option("--extra", type=_FOLDER, help="JSONL of more corpus rows.")
@click.option("--strategy", type=click.Choice(["auto", "flat", "hybrid"]), default="auto", show_default=True)
@click.option("--budget", type=click.IntRange(50), default=1200, show_default=True, help="Tokens of packed context.")
@click.option("--per-query", type=_FOLDER, help="Write one JSON line for each query here.")
@click.option("--ablation", is_flag=True, help="Measure every strategy side by side.")
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
) -> None:
    """Build a suite in a throw-away home, cached by content and code, and measure retrieval on it."""
    from eval import suite_runs

    out = Output(as_json)
    strategies = ["flat", "hybrid"] if ablation else [strategy]
    done = suite_runs.measure(folder, extra, strategies, budget, per_query)
    out.text(suite_runs.text(done))
    out.result(done[-1] | ({"ablation": done} if ablation else {}))


@cli.command()
@common
@click.option(
    "--pairs", "pairs_file", type=_FOLDER, required=True, help="JSONL: id, older, newer[, older_date, newer_date]."
)
@click.option(
    "--out", "out_file", type=_FOLDER, required=True, help="The same lines with predicted, confidence, labeler."
)
@click.option("--labeler", type=click.Choice(["offline"]), default="offline", show_default=True)
def label(home_path: Path, as_json: bool, backend: str, pairs_file: Path, out_file: Path, labeler: str) -> None:
    """Label pairs of texts UPDATE, EXTEND, DERIVE or NONE."""
    from eval.labels import label_file

    out = Output(as_json)
    done = label_file(pairs_file, out_file)
    out.text(f"{done['pairs']} pairs labelled in {sum(done['seconds'].values()):.2f} s: {out_file}")
    out.result(done)


@cli.command()
@common
@click.option("--baseline", "baseline_file", type=_FOLDER, help="Compare with this baseline instead of data/baselines.")
@click.option("--markdown", "markdown_file", type=_FOLDER, help="Write the verdict for a pull request here.")
def gate(home_path: Path, as_json: bool, backend: str, baseline_file: Path | None, markdown_file: Path | None) -> None:
    """Judge the staged, else the published build against the committed baseline."""
    from eval.judge import judge_home

    out = Output(as_json)
    verdict = judge_home(Home(home_path), baseline_file)
    if markdown_file:
        markdown_file.write_text(verdict.markdown(), encoding="utf-8")
    out.text(verdict.markdown())
    out.result(verdict.to_json())
    if verdict.exit_code:
        reasons = [r for d in verdict.decisions for r in (*d.reasons, *(d.warnings if d.status == "unjudged" else ()))]
        raise Refused(f"gate: {verdict.status}: {'; '.join(reasons[:3])}")


@cli.group()
def baseline() -> None:
    """The committed run that later builds must not fall behind."""


@baseline.command()
@common
@click.option("--why", required=True, help="The reason, for those who read the history.")
def accept(home_path: Path, as_json: bool, backend: str, why: str) -> None:
    """Write the staged, else the published build's run as the new baseline."""
    from eval.judge import accept_home

    out = Output(as_json)
    written = accept_home(Home(home_path), why)
    out.text("\n".join(f"wrote {path}" for path in written))
    out.result({"baselines": [str(p) for p in written]})


@cli.command()
@common
@click.argument("build_a")
@click.argument("build_b")
def compare(home_path: Path, as_json: bool, backend: str, build_a: str, build_b: str) -> None:
    """Say what changed between two builds: memories, relations, metrics, queries."""
    from eval.judge import compare_builds

    out = Output(as_json)
    found, text = compare_builds(Home(home_path), build_a, build_b)
    out.text(text)
    out.result(found)


@cli.command()
@common
def verify(home_path: Path, as_json: bool, backend: str) -> None:
    """Check every invariant on this home."""
    from eval.judge import verify_home

    out = Output(as_json)
    done = verify_home(Home(home_path))
    out.text(
        "\n".join(
            [
                *done["violations"],
                f"build {done['build_id']}: {len(done['violations'])} violations",
            ]
        )
    )
    out.result(done)
    if done["violations"]:
        raise Refused(f"verify: {len(done['violations'])} violations, the first: {done['violations'][0]}")


@cli.command()
@common
@click.option("--memories", type=click.IntRange(100), default=100_000, show_default=True)
@click.option("--strategy", type=click.Choice(["auto", "flat", "hybrid"]), default="auto", show_default=True)
@click.option("--kind", type=click.Choice(["turns", "titled"]), default="turns", show_default=True)
@click.option("--users", type=click.IntRange(1), default=50, show_default=True, help="Scopes, of Zipf size.")
@click.option("--clients", type=click.IntRange(1), default=1, show_default=True, help="Clients at once.")
def bench(
    home_path: Path, as_json: bool, backend: str, memories: int, strategy: str, kind: Any, users: int, clients: int
) -> None:
    """Measure the query path on a seeded home of this many memories."""
    import tempfile

    from eval.bench import bench_text, run_bench

    out = Output(as_json)
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        done = run_bench(
            memories, users=users, strategy=strategy, kind=kind, clients=clients, backend=backend, workdir=Path(folder)
        )
    out.text(bench_text(done))
    out.result(done)


@cli.command()
@common
@click.option("--document", help="URI of a source, relative to its collection.")
@click.option("--user", help="Everything of this user, in every collection.")
@click.option("--collection", help="With --document: its collection. Alone: the whole collection.")
def delete(
    home_path: Path, as_json: bool, backend: str, document: str | None, user: str | None, collection: str | None
) -> None:
    """Remove all that came from a document, a user or a collection, and prove that nothing is left."""
    from pipelines.delete import delete as delete_from

    out = Output(as_json)
    done = delete_from(Home(home_path), document=document, user=user, collection=collection)
    out.text(done["text"])
    out.result(done)


@cli.command()
@common
def doctor(home_path: Path, as_json: bool, backend: str) -> None:
    """Check versions, model, threads, disk and home; each failure names its fix."""
    from pipelines.doctor import examine

    out = Output(as_json)
    findings = examine(Home(home_path))
    out.text(
        "\n".join(
            f"{'ok  ' if f.ok else 'FAIL'} {f.what}: {f.found}{'' if f.ok else '; fix: ' + f.fix}" for f in findings
        )
    )
    out.result({"ok": all(f.ok for f in findings), "findings": [f.__dict__ for f in findings]})
    if bad := [f for f in findings if not f.ok]:
        raise Refused(f"doctor: {bad[0].what}: {bad[0].fix}")


@cli.command()
@common
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
def dev(home_path: Path, as_json: bool, backend: str, port: int) -> None:
    """Open the Dagster UI on this home, on 127.0.0.1."""
    from pipelines.run import serve_ui

    raise SystemExit(serve_ui(Home(home_path), port))


def main() -> None:
    """Entry point: turns every error into one line and an exit code."""
    try:
        cli(standalone_mode=False)
    except PalimpsestError as e:
        _fail(str(e), e.exit_code)
    except click.exceptions.Exit as e:
        raise SystemExit(e.exit_code) from None
    except click.ClickException as e:
        _fail(e.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped; run again to finish", 3)
    except BrokenPipeError:
        raise SystemExit(0) from None
    except Exception as e:
        if os.environ.get("PALIMPSEST_DEBUG"):
            raise
        _fail(f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}; PALIMPSEST_DEBUG=1 shows where", 3)


def _fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    sys.stderr.write(f"palimpsest: {line[:390]}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
