"""Commands over the fact table of a scope."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from palimpsest.cli.scope_options import ScopeOptions, privacy_options, scope_options
from palimpsest.cli.shared import common
from palimpsest.query.request.one_line import changed_line

if TYPE_CHECKING:
    from palimpsest.query.graph.fact_table import FactAnswer, FactTable

_SHOWN = 100  # lines for people; JSON has all


@click.group(short_help="Look up facts by key, such as ana.works_for.")
def fact() -> None:
    """The fact table of a scope: keys such as ana.works_for, their values, and the memories that state them."""


@fact.command(name="list", short_help="The facts of a subject, or of all.")
@common
@scope_options
@privacy_options
@click.option("--subject", default="", help="A name or an alias. [default: all]")
@click.option("--history", is_flag=True, help="Also what only superseded memories state.")
def list_facts(subject: str, history: bool, **options: Any) -> None:
    """The facts of a scope by key; those that conflict are marked."""
    _show(lambda table: table.facts(subject, history=history), ScopeOptions(**options))


@fact.command(short_help="The facts of a key; the nearest where there is none.")
@common
@click.argument("text", metavar="KEY|TEXT")
@scope_options
@privacy_options
@click.option("--history", is_flag=True, help="Also what only superseded memories state.")
def get(text: str, history: bool, **options: Any) -> None:
    """The facts of KEY, such as ana.works_for or "Ana works for"; for any other TEXT those of what a search finds."""
    _show(lambda table: table.get(text, history=history), ScopeOptions(**options))


def _show(look_up: "Callable[[FactTable], FactAnswer]", options: ScopeOptions) -> None:
    with options.open() as (reader, scopes):
        answer = look_up(reader.facts(scopes, **options.shown))
    options.output.text(_text(answer))
    options.output.result(answer.to_json())


def _text(answer: "FactAnswer") -> str:
    if not answer.facts:
        return "no facts found in this scope; palimpsest scopes lists whose memories there are"
    lines = [] if answer.is_direct else ["no such key; the facts of the memories that fit best:"]
    for f in answer.facts[:_SHOWN]:
        value = f"not {f.value}" if f.is_negated else f.value
        notes = [] if f.is_latest else ["superseded"]
        notes += [f"also stated: {', '.join(f.conflicts)}"] if f.conflicts else []
        since = f"since {f.valid_from.date().isoformat()}" if f.valid_from else ""
        about = "; ".join(n for n in (since, *notes) if n)
        cited = " ".join(f"[memory:{i}]" for i in f.provenance[:3])
        line = " ".join(f"{f.key} = {value}{f' ({about})' if about else ''} {cited}".split())
        lines.append(changed_line(line, f.disputed_by))
    if len(answer.facts) > _SHOWN:
        lines.append(f"and {len(answer.facts) - _SHOWN} more; --json has all")
    return "\n".join(lines)
