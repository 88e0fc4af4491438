"""`palimpsest`: a thin skin over the Python functions, one verb a command.

Exit codes: 0 done, 1 the gate or verify failed, 2 bad input or usage, 3 a component failed. Results go to stdout,
progress to stderr; with --json the last line of stdout is one JSON object.
"""

import atexit
import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from palimpsest.core.errors import STOPPED, ArgumentError, PalimpsestError, Refused, fault_of, missing_extra

_NAME_OF = {
    "text": "TEXT",
    "name": "NAME",
    "folder": "DIR",
    "url": "URL",
    "uri": "URI",
    "file": "FILE",
    "relations": "palimpsest graph relations TEXT",
    "facts": "palimpsest fact list",
}
"""How messages name what the command that was called has no parameter for."""
_MAX_ERROR_CHARS = 390
_OTHER_NAMES = {"collections": "collection", "documents": "document"}


_COMMANDS = {
    "analyze": ("sources", "Show how a site is structured, before it is read."),
    "backup": ("home", "Write a home into one file, while builds go on."),
    "baseline": ("evaluate", "The accepted run that later builds are judged by."),
    "bench": ("evaluate", "Measure query speed on a generated home."),
    "benchmark": ("evaluate", "Measure retrieval on a published benchmark, as it defines it."),
    "build": ("build", "Read the sources, build the graph, judge it, publish it."),
    "collection": ("collection", "List, show, make, change and delete collections."),
    "compare": ("evaluate", "Show what changed between two builds."),
    "config": ("config", "Show and change settings, and where they come from."),
    "confirm": ("review", "Mark relations as right, from the next build on."),
    "consolidate": ("consolidate", "Look over what came in, and propose changes."),
    "delete": ("home", "Delete memories from every build and log, and prove it."),
    "dev": ("build", "Open the Dagster UI on this home."),
    "doctor": ("doctor", "Check versions, model, threads, disk and home."),
    "document": ("sources", "List, view, replace and delete documents."),
    "entity": ("query", "Show what a name refers to, or decide it."),
    "export": ("home", "Write all that is stored about a user to a folder."),
    "fact": ("query", "Look up facts by key, such as ana.works_for."),
    "gate": ("evaluate", "Judge a build against the committed baseline."),
    "graph": ("graph", "Ask how things relate, how they changed, and what is near them."),
    "health": ("evaluate", "Growth, ages, disputes, use, cost and size of the home."),
    "home": ("home", "Upgrade a home that an earlier version wrote."),
    "housekeeping": ("home", "Remove what the home no longer needs: logs, vectors, runs, leftovers."),
    "import": ("home", "Import an export, or what was edited in its Markdown pages."),
    "ingest": ("sources", "Read pages, sites, texts and files into the home."),
    "instance": ("instance", "Several homes with names: make, start, stop, delete."),
    "label": ("evaluate", "Label pairs of texts."),
    "logs": ("home", "Show what builds, deletes, the gate and the inbox did."),
    "memory": ("query", "Show one memory, its place in its source, or edit its words."),
    "metrics": ("evaluate", "Print the home's figures in Prometheus' text format."),
    "neo4j": ("neo4j", "Start, stop and inspect a local Neo4j server."),
    "notes": ("query", "What sessions say that is worth keeping."),
    "operation": ("sources", "Show what became of something sent to the inbox."),
    "profile": ("query", "What is known of a user, with citations."),
    "query": ("query", "Search memories: ranked results, then the cited context."),
    "remember": ("sources", "Send a text or a file to the inbox; the next build forms it."),
    "restore": ("home", "Restore a home from a backup."),
    "review": ("review", "List relations that a person should look at."),
    "scopes": ("query", "List collections, users and projects."),
    "serve": ("serve", "Serve memories to applications over HTTP."),
    "service": ("serve", "Run the service of a home in the background."),
    "suite": ("evaluate", "Measure retrieval on a public or own test set."),
    "summarize": ("query", "Sum up a session, or the sessions of a scope."),
    "undo": ("review", "Mark relations as wrong, from the next build on."),
    "verify": ("evaluate", "Check every invariant on this home."),
}
"""The module of each command and its line in the help, so that a command imports no other's module."""


class _Commands(click.Group):
    """The commands, each imported when it is used; some have another name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names that the help lists."""
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Returns the command of a name, which need not be the one that the help lists."""
        name = _OTHER_NAMES.get(name, name)
        if name not in _COMMANDS:
            return None
        from palimpsest.cli.shared import refuse_empty_texts

        module = importlib.import_module(f"palimpsest.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, "import_" if name == "import" else name)
        refuse_empty_texts(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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
    """Entry point: turns every error into one line and an exit code; a closed gate has a line for each collection.

    Raises:
        SystemExit: a command failed, or ended with an exit code of its own.
    """
    warnings.showwarning = _show_warning  # type: ignore[assignment]  # its further arguments are not used
    try:
        cli(standalone_mode=False)
        _ignore_interrupts()
    except ArgumentError as e:
        _fail(e.as_option(_option_name), e.exit_code)
    except Refused as e:
        _fail(str(e), e.exit_code, e.lines)
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


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
    """Shows a warning of ours as one line on stderr, and any other as Python does."""
    ours = category.__module__.startswith("palimpsest.")
    click.echo(
        f"warning: {message}" if ours else warnings.formatwarning(message, category, filename, lineno).rstrip(),
        err=True,
    )


def _option_name(argument: str) -> str:
    """Returns what sets an argument on the command line: a parameter of the command that was called, else one like it.

    The name of a function of the reader gives the command that calls it.
    """
    for parameter in _called_command().params:
        if parameter.name == argument:
            is_option = isinstance(parameter, click.Option)
            return parameter.opts[0] if is_option else parameter.human_readable_name
    return _NAME_OF.get(argument) or f"--{argument.replace('_', '-')}"


def _called_command() -> click.Command:
    command: click.Command = cli
    for word in sys.argv[1:]:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word) or command
    return command


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


def _fail(message: str, code: int, more: Sequence[str] = ()) -> None:
    _ignore_interrupts()
    line = " ".join(message.split())[:_MAX_ERROR_CHARS]
    sys.stderr.write("\n  ".join([f"palimpsest: {line}", *(" ".join(x.split()) for x in more)]) + "\n")
    raise SystemExit(code)


def run() -> None:
    """Runs `main` as a program; the process then ends without taking its modules apart, which takes half a second."""
    code: object = 0
    try:
        main()
    except SystemExit as e:
        code = e.code
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # nobody reads any more, or it is closed
            stream.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    run()
