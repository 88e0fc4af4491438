"""`palimpsest`: a thin skin over the Python functions, one verb a command.

Exit codes: 0 done, 1 the gate or verify said no, 2 bad input or usage, 3 a component failed. Results go to stdout,
progress to stderr; with --json the last line of stdout is one JSON object.
"""

import os
import signal
import sys
import threading

import click

from palimpsest.cli import build as make
from palimpsest.cli import evaluate as judge
from palimpsest.cli import neo4j as serve
from palimpsest.cli import query as ask
from palimpsest.cli import review, scopes
from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.extras import missing_extra
from palimpsest.core.faults import STOPPED, fault_of

_OPTIONS = {"budget_tokens": "--budget", "text": "TEXT"}  # of arguments whose option has another name


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    commands=[
        make.build,
        ask.query,
        ask.entity,
        scopes.scopes,
        judge.gate,
        judge.baseline,
        judge.compare,
        judge.verify,
        judge.suite,
        judge.bench,
        judge.label,
        make.delete,
        review.review,
        review.undo,
        review.confirm,
        serve.neo4j,
        make.doctor,
        make.dev,
    ],
)
@click.version_option(package_name="palimpsest-memory")
def cli() -> None:
    """Builds and evaluates a versioned knowledge graph of memories."""


def main() -> None:
    """Entry point: turns every error into one line and an exit code."""
    try:
        cli(standalone_mode=False)
        _ignore_interrupts()
    except ArgumentError as e:
        _fail(e.as_option(_OPTIONS.get(e.argument) or f"--{e.argument.replace('_', '-')}"), e.exit_code)
    except PalimpsestError as e:
        _fail(str(e), e.exit_code)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        raise SystemExit(2) from None
    except click.exceptions.Exit as e:
        raise SystemExit(e.exit_code) from None
    except click.ClickException as e:
        _fail(e.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        _fail(STOPPED, 3)
    except BrokenPipeError:
        raise SystemExit(0) from None
    except SystemExit:
        raise
    except BaseException as e:  # Dagster's own interruption is no Exception
        if os.environ.get("PALIMPSEST_DEBUG"):
            raise
        if fault := fault_of(e):
            _fail(str(fault), fault.exit_code)
        if isinstance(e, ModuleNotFoundError) and (missing := missing_extra(e, _command())):
            _fail(str(missing), missing.exit_code)
        _fail(f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}; PALIMPSEST_DEBUG=1 shows where", 3)


def _command() -> str:
    return next((a for a in sys.argv[1:] if not a.startswith("-")), "palimpsest")


def _ignore_interrupts() -> None:
    """Makes Ctrl-C do nothing from now on: the work is done or given up, and only the interpreter is still ending."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _fail(message: str, code: int) -> None:
    _ignore_interrupts()
    line = " ".join(message.split())
    sys.stderr.write(f"palimpsest: {line[:390]}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
