"""`palimpsest`: a thin skin over the Python functions, one verb a command.

Exit codes: 0 done, 1 the gate or verify failed, 2 bad input or usage, 3 a component failed. Results go to stdout,
progress to stderr; with --json the last line of stdout is one JSON object.
"""

import os
import signal
import sys
import threading

import click

from palimpsest.cli import (
    build,
    collection,
    config,
    consolidate,
    doctor,
    evaluate,
    graph,
    home,
    instance,
    neo4j,
    query,
    review,
    serve,
    sources,
)
from palimpsest.core.errors import STOPPED, ArgumentError, PalimpsestError, fault_of, missing_extra

_OPTION_OF_ARGUMENT = {
    "budget_tokens": "--budget",
    "text": "TEXT",
    "name": "NAME",
    "folder": "DIR",
    "url": "URL",
    "uri": "URI",
    "file": "FILE",
}  # others are named like their argument
_MAX_ERROR_CHARS = 390
_OTHER_NAMES = {"collections": "collection", "documents": "document"}


class _Commands(click.Group):
    """The commands, some of which have another name."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the command of a name, which need not be the one that the help lists."""
        return super().get_command(context, _OTHER_NAMES.get(name, name))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    commands=[
        build.build,
        query.query,
        query.entity,
        graph.graph,
        query.fact,
        query.notes,
        query.profile,
        query.summarize,
        sources.remember,
        sources.operation,
        query.memory,
        sources.ingest,
        sources.analyze,
        query.scopes,
        collection.collection,
        sources.document,
        config.config,
        evaluate.gate,
        evaluate.baseline,
        evaluate.compare,
        evaluate.verify,
        evaluate.health,
        evaluate.metrics,
        evaluate.suite,
        evaluate.benchmark,
        evaluate.bench,
        evaluate.label,
        home.delete,
        home.export,
        home.import_,
        home.backup,
        home.restore,
        home.home,
        review.review,
        review.undo,
        review.confirm,
        consolidate.consolidate,
        neo4j.neo4j,
        home.logs,
        home.housekeeping,
        serve.serve,
        serve.service,
        instance.instance,
        doctor.doctor,
        build.dev,
    ],
)
@click.version_option(package_name="palimpsest-memory")
@click.pass_context
def cli(context: click.Context) -> None:
    """Builds and evaluates a versioned knowledge graph of memories."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.core.setting_layers import apply_layers

    if context.invoked_subcommand == "config":  # shows which layer sets what, and changes a file that is broken
        return
    try:
        context.obj = apply_layers()
    except PalimpsestError as e:
        if context.invoked_subcommand != "doctor":  # reports it with all else that is wrong
            raise
        context.obj = e


def main() -> None:
    """Entry point: turns every error into one line and an exit code.

    Raises:
        SystemExit: a command failed, or ended with an exit code of its own.
    """
    try:
        cli(standalone_mode=False)
        _ignore_interrupts()
    except ArgumentError as e:
        _fail(e.as_option(_option_name(e.argument)), e.exit_code)
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
        _fail_unexpected(e)


def _option_name(argument: str) -> str:
    return _OPTION_OF_ARGUMENT.get(argument) or f"--{argument.replace('_', '-')}"


def _fail_unexpected(error: BaseException) -> None:
    """Ends with the fault or the missing extra that an error means, else with its first line."""
    if fault := fault_of(error):
        _fail(str(fault), fault.exit_code)
    if isinstance(error, ModuleNotFoundError) and (missing := missing_extra(error, _command_name())):
        _fail(str(missing), missing.exit_code)
    first_line = str(error).splitlines()[0] if str(error) else ""
    _fail(f"{type(error).__name__}: {first_line}; PALIMPSEST_DEBUG=1 shows where", 3)


def _command_name() -> str:
    return next((a for a in sys.argv[1:] if not a.startswith("-")), "palimpsest")


def _ignore_interrupts() -> None:
    """Makes Ctrl-C do nothing from now on: the work is done or given up, and only the interpreter is still ending."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _fail(message: str, code: int) -> None:
    _ignore_interrupts()
    line = " ".join(message.split())
    sys.stderr.write(f"palimpsest: {line[:_MAX_ERROR_CHARS]}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
