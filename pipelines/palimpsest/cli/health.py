"""The commands `palimpsest health` and `palimpsest metrics`: figures of a home for people and for Prometheus."""

from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Output, common
from palimpsest.store.home import Home


@click.command(short_help="Growth, ages, disputes, use, cost and size of the home.")
@common
@click.option("--report", "report_file", type=FOLDER, help="Write the report, one HTML page, here.")
def health(home_path: Path, as_json: bool, backend: str, report_file: Path | None) -> None:
    """Show the health of the published build; each night's report is in the home, health/report.html."""
    from palimpsest_eval.report.health_page import CARDS, format_number
    from palimpsest_eval.runs.report_health import health_of, write_health

    out = Output(as_json)
    found = health_of(Home(home_path))
    if report_file:
        write_health(found, report_file)
    numbers = found.numbers
    lines = [
        f"{title:<18}{format_number(numbers.get(name), form):>14}  {explanation}"
        for name, title, explanation, form in CARDS
    ]
    made = found.created_at[:19].replace("T", " ")
    out.text("\n".join([f"build {found.build_id}, {made} UTC, gate {found.status}", *lines]))
    out.result(found.to_json())


@click.command(short_help="Print the home's figures in Prometheus' text format.")
@common
@click.option("--out", "out_file", type=FOLDER, help="Write them here, for node_exporter's textfile collector.")
def metrics(home_path: Path, as_json: bool, backend: str, out_file: Path | None) -> None:
    """Print build age, memories, gate, latencies, rejects and seconds by stage in Prometheus' text format."""
    from palimpsest_eval.runs.home_metrics import metrics_text, write_metrics

    out, home = Output(as_json), Home(home_path)
    if out_file:
        write_metrics(home, out_file)
        out.text(f"wrote {out_file}")
        out.result({"out": str(out_file)})
        return
    text = metrics_text(home)
    out.text(text.rstrip())
    out.result({"metrics": text})
