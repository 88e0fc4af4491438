"""Shared by all commands: where results go, the options that all take, and types of parameters."""

import datetime as dt
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.times import parse_time
from palimpsest.store.home import DEFAULT_HOME, Home, send_unwritten
from palimpsest.store.remote_home import local_home
from palimpsest.store.table_store import is_remote

STRATEGY = click.Choice(["auto", "flat", "hybrid", "words", "hierarchical", "dated", "turns", "statements", "graph"])

WHICH_COLLECTION = "[default: the one that has all memories of --user; else the only one, or the one marked default]"
_Command = TypeVar("_Command", bound=Callable[..., object])


@dataclass(frozen=True)
class Output:
    """Writes a command's result: text for people, or one JSON line."""

    as_json: bool

    def text(self, text: str) -> None:
        """Writes text for people; with --json to stderr, so that stdout is for machines only."""
        click.echo(text, err=self.as_json)

    def result(self, value: Mapping[str, object]) -> None:
        """Writes the result as the last line of stdout, with --json."""
        if self.as_json:
            click.echo(json.dumps(value, sort_keys=True, default=str))

    def show(self, text: str, value: Mapping[str, object]) -> None:
        """Writes both."""
        self.text(text)
        self.result(value)


@dataclass(frozen=True)
class Call(Output):
    """One call of a command: what `common` adds to it, and where its result goes."""

    home_path: Path
    backend: str

    @property
    def home(self) -> Home:
        """The home that it is about."""
        return Home(self.home_path)


def columns(rows: Sequence[Sequence[str]], widest: int = 44) -> list[str]:
    """Returns rows as lines with aligned columns; a cell longer than `widest` moves only those after it."""
    widths = [min(max(map(len, column)), widest) for column in zip(*rows, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def visible(text: str) -> str:
    """Returns a text of a source for a terminal: lines and tabs stay, every other control character is escaped."""
    from palimpsest.sources.readers.encodings import escape_invisible

    return "\n".join("\t".join(map(escape_invisible, line.split("\t"))) for line in text.split("\n"))


def confirm(question: str, yes: bool) -> None:
    """Asks before something is removed; `--yes` answers.

    Raises:
        PalimpsestError: the answer is no, or there is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise PalimpsestError(f"{question} No terminal to confirm at: add --yes")
    if not click.confirm(question, err=True):
        raise PalimpsestError("nothing was deleted")


def collection_option(f: _Command) -> _Command:
    """Adds --collection to a command that stores something."""
    return click.option(
        "--collection",
        help=f"Where it belongs. {WHICH_COLLECTION}",
    )(f)


def embedder_option(f: _Command) -> _Command:
    """Adds --embedder to a command."""
    return click.option(
        "--embedder",
        callback=_read_embedder,
        help="Model of the vectors, for collections that name none: minilm, bge-small-en-v1.5, "
        "multilingual-e5-small, the name or folder of a sentence-transformers model, or openai:MODEL.",
    )(f)


def _read_embedder(_: click.Context, option: click.Parameter, embedder: str | None) -> str | None:
    from palimpsest.store.embeddings import absolute_path

    if embedder is not None and not embedder.strip():
        raise click.BadParameter(
            "names no embedder; use minilm, bge-small-en-v1.5, multilingual-e5-small, a model's name or folder"
        )
    return None if embedder is None else absolute_path(embedder, None)


class _TextParam(click.types.StringParamType):
    """A text that says something: an empty one, such as an unset variable of a script, is an error and no default."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the text; fails where it was given and is empty."""
        _refuse_empty(value, param, ctx)
        return super().convert(value, param, ctx)


class _FolderParam(click.Path):
    """A path that is not empty: an empty one would be the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the path; fails where it is empty."""
        _refuse_empty(value, param, ctx)
        return super().convert(value, param, ctx)


def _refuse_empty(value: object, param: click.Parameter | None, ctx: click.Context | None) -> None:
    is_given = ctx and param and param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    if is_given and isinstance(value, str) and not value.strip():
        fix = "give one" if isinstance(param, click.Argument) else "give one, or leave it out"
        raise click.BadParameter(f"is empty; {fix}", ctx, param)


FOLDER = _FolderParam(path_type=Path)


def refuse_empty_texts(command: click.Command) -> None:
    """Makes every text that a command, or one below it, takes refuse an empty value."""
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        refuse_empty_texts(below)
    for parameter in command.params:
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = _TextParam()


class CostParam(click.FloatRange):
    """An amount of money, 0 or more; `nan` is none."""

    def __init__(self) -> None:
        super().__init__(0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the amount; fails where it is none."""
        amount = float(super().convert(value, param, ctx))
        if math.isnan(amount):
            self.fail("nan is no amount; write a number such as 0.5", param, ctx)
        return amount


class TimeParam(click.ParamType):  # type: ignore[type-arg]  # generic in the types alone
    """A time in ISO 8601, with its own offset, else UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        """Returns the time; fails where it is none."""
        try:
            return cast(dt.datetime, parse_time(value))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; write one such as 2026-03-01 or 2026-03-01T09:30:00Z", param, ctx)


def _check_home(context: click.Context, parameter: click.Parameter, named: str | Path) -> Path:
    home = local_home(named)
    if is_remote(str(named)):
        context.call_on_close(lambda: send_unwritten(home))
    if home.exists() and not home.is_dir():
        raise click.BadParameter(f"{home}: not a folder; name another", context, parameter)
    return home


def gathered(kind: type) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Returns a decorator of a command: its options that are fields of a dataclass are one argument, the first."""
    names = [field.name for field in fields(kind)]

    def decorate(f: Callable[..., object]) -> Callable[..., object]:
        @wraps(f)
        def run(**options: Any) -> object:
            return f(kind(**{name: options.pop(name) for name in names if name in options}), **options)

        return run

    return decorate


def json_option(f: Callable[..., object]) -> Callable[..., object]:
    """Adds --json to a command; it gets an `Output`."""
    return _json(gathered(Output)(f))


def common(f: Callable[..., object]) -> Callable[..., object]:
    """Adds --home, --json and --backend to a command; it gets a `Call`."""
    return common_options(gathered(Call)(f))


_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line of stdout.")


def common_options(f: _Command) -> _Command:
    """Adds --home, --json and --backend to a command, each an argument of its own unless it is `gathered`."""
    f = click.option(
        "--backend",
        type=click.Choice(["duckdb", "neo4j"]),
        default="duckdb",
        envvar="PALIMPSEST_BACKEND",
        help="Where queries are answered.",
    )(f)
    f = _json(f)
    return click.option(
        "--home",
        "home_path",
        type=str,
        callback=_check_home,
        default=lambda: os.environ.get("PALIMPSEST_HOME") or DEFAULT_HOME,
        help="Folder with everything that a build writes, or s3://BUCKET/PREFIX, gs://.., az://... "
        "[default: $PALIMPSEST_HOME, else data/home]",
    )(f)
