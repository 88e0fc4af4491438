"""The command that checks the installation and a home."""

from dataclasses import asdict
from pathlib import Path

import click

from palimpsest.cli.shared import Output, common
from palimpsest.core.errors import Refused
from palimpsest.store.home import Home


@click.command(short_help="Check versions, model, threads, disk and home.")
@common
def doctor(home_path: Path, as_json: bool, backend: str) -> None:
    """Check versions, model, threads, disk and home; each failure names its fix."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.cli.doctor_checks import run_checks, settings_finding

    out = Output(as_json)
    findings = [settings_finding(click.get_current_context().obj), *run_checks(Home(home_path))]
    out.text("\n".join(finding.text() for finding in findings))
    failures = [f for f in findings if not f.ok]
    out.result({"ok": not failures, "findings": [asdict(f) for f in findings]})
    if failures:
        raise Refused(f"doctor: {failures[0].what}: {failures[0].fix}")
