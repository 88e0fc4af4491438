"""Commands over the graph of a scope: how things relate, how one changed, and what is near a node."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from palimpsest.cli.query import ScopeOptions, privacy_options, scope_options
from palimpsest.cli.shared import WHICH_COLLECTION, Output, common
from palimpsest.store.graph_decisions import EDGE_TYPES, NODE_TYPES, NodeValues
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from palimpsest.query.graph.graph_answer import GraphAnswer
    from palimpsest.query.graph.graph_reader import GraphReader


# Commands by which people add, edit, merge and delete nodes and edges, and take that back.

_Command = TypeVar("_Command", bound=Callable[..., object])
_Properties = tuple[tuple[str, str | float | bool], ...]
_SHARE = click.FloatRange(0, 1)
_NODE_TYPES, _EDGE_TYPES = click.Choice(NODE_TYPES), click.Choice(EDGE_TYPES)


def _scope_options(f: _Command) -> _Command:
    """Adds --collection, --user and --project: the one scope that is decided about."""
    f = click.option("--project", default="", help="Project of the node. [default: the general memory]")(f)
    f = click.option("--user", help="Whose node. [default: the collection's user_id]")(f)
    return click.option("--collection", help=f"Collection of the node. {WHICH_COLLECTION}")(f)


def _parse_properties(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> _Properties:
    """Returns (key, value) of each KEY=VALUE, the last of a key, ascending.

    Raises:
        BadParameter: one is no KEY=VALUE.
    """
    found: dict[str, str | float | bool] = {}
    for pair in given:
        key, sign, text = (part.strip() for part in pair.partition("="))
        if not key or not sign:
            raise click.BadParameter(f"{pair!r} is no KEY=VALUE; write one such as status=active", ctx, param)
        found[key] = _property_value(text)
    return tuple(sorted(found.items()))


def _property_value(text: str) -> str | float | bool:
    if text in ("true", "false"):
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _node_options(f: _Command) -> _Command:
    f = click.option("--importance", type=_SHARE, help="From 0 to 1.")(f)
    f = click.option(
        "--property",
        "properties",
        multiple=True,
        callback=_parse_properties,
        metavar="KEY=VALUE",
        help="Metadata: a text, a number, true or false; KEY= removes it. May be given again.",
    )(f)
    f = click.option("--alias", "aliases", multiple=True, help="Another name. May be given again.")(f)
    f = click.option("--description", help="What it is.")(f)
    return click.option("--type", "type_", type=_NODE_TYPES, help="What kind of node it is.")(f)


@click.command(name="add", short_help="Add a node, from the next build on.")
@common
@click.argument("name")
@_node_options
@_scope_options
def add_node(
    name: str,
    type_: str | None,
    description: str | None,
    aliases: tuple[str, ...],
    importance: float | None,
    properties: _Properties,
    **at: Any,
) -> None:
    """Add the node NAME. Every later build keeps it, until `graph undo` or until its scope is deleted."""
    values = NodeValues(
        type=type_, description=description, aliases=aliases, importance=importance, properties=properties
    )
    _decide(lambda nodes, home, scope: nodes.add_node(home, scope, name, values), **at)


@click.command(name="edit", short_help="Change a node, from the next build on.")
@common
@click.argument("name")
@click.option("--name", "new_name", help="Its new name; the old one becomes an alias.")
@_node_options
@_scope_options
def edit_node(
    name: str,
    new_name: str | None,
    type_: str | None,
    description: str | None,
    aliases: tuple[str, ...],
    importance: float | None,
    properties: _Properties,
    **at: Any,
) -> None:
    """Change the node NAME, a name or an id. What is not given stays as the texts show it."""
    values = NodeValues(new_name, type_, description, aliases, importance, properties=properties)
    _decide(lambda nodes, home, scope: nodes.edit_node(home, scope, name, values), **at)


@click.command(name="merge", short_help="Make two nodes one, from the next build on.")
@common
@click.argument("name")
@click.argument("other")
@_scope_options
def merge_nodes(name: str, other: str, **at: Any) -> None:
    """Make OTHER part of NAME: its memories, edges and names. Two entities become one, as with `entity --same`."""
    _decide(lambda nodes, home, scope: nodes.merge_nodes(home, scope, name, other), **at)


@click.command(name="delete", short_help="Hide a node and its edges, from the next build on.")
@common
@click.argument("name")
@_scope_options
def delete_node(name: str, **at: Any) -> None:
    """Hide the node NAME and its edges. Its memories stay: `palimpsest delete` removes what texts say."""
    _decide(lambda nodes, home, scope: nodes.delete_node(home, scope, name), **at)


@click.group(short_help="Add or delete an edge between two nodes.")
def edge() -> None:
    """Add or delete an edge between two nodes, from the next build on."""


@edge.command(name="add", short_help="Add an edge.")
@common
@click.argument("source")
@click.argument("target")
@click.option("--type", "type_", type=_EDGE_TYPES, default="related_to", show_default=True, help="Its type.")
@click.option("--weight", type=_SHARE, default=1.0, show_default=True, help="From 0 to 1.")
@_scope_options
def add_edge(source: str, target: str, type_: str, weight: float, **at: Any) -> None:
    """Add an edge from the node SOURCE to the node TARGET."""
    values = NodeValues(type=type_, weight=weight)
    _decide(lambda nodes, home, scope: nodes.add_edge(home, scope, source, target, values), **at)


@edge.command(name="delete", short_help="Delete an edge.")
@common
@click.argument("source")
@click.argument("target")
@click.option("--type", "type_", type=_EDGE_TYPES, help="Only of this type. [default: every type]")
@_scope_options
def delete_edge(source: str, target: str, type_: str | None, **at: Any) -> None:
    """Delete the edges from the node SOURCE to the node TARGET; no later build makes them again."""
    _decide(lambda nodes, home, scope: nodes.delete_edge(home, scope, source, target, type_), **at)


@click.command(name="undo", short_help="Take a decision about nodes or edges back.")
@common
@click.argument("decision_id")
def undo(home_path: Path, as_json: bool, backend: str, decision_id: str) -> None:
    """Take the decision DECISION_ID back, from the next build on. `graph decisions` lists them."""
    from palimpsest.nodes import node_decisions

    _report(Output(as_json), node_decisions.undo(Home(home_path), decision_id))


@click.command(name="decisions", short_help="List what people decided of nodes and edges.")
@common
def decisions(home_path: Path, as_json: bool, backend: str) -> None:
    """List the decisions about nodes and edges that apply, with the ids by which `graph undo` takes them back."""
    from palimpsest.nodes.node_decisions import decision_rows

    out, rows = Output(as_json), decision_rows(Home(home_path))
    hidden = ("decision_id", "action", "at")
    lines = [
        f"{r['decision_id']}  {r['action']}  " + ", ".join(f"{k} {v}" for k, v in r.items() if k not in hidden)
        for r in rows
    ]
    out.text("\n".join(lines) or "no decisions about nodes and edges")
    out.result({"decisions": rows})


def _decide(
    decide: Callable[[Any, Home, Any], Any],
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    project: str,
) -> None:
    from palimpsest.nodes import node_decisions
    from palimpsest.query.reader import open_home

    with open_home(home_path, backend=backend) as reader:
        scope = reader.resolve_scope(collection, user, project)
    _report(Output(as_json), decide(node_decisions, Home(home_path), tuple(scope)))


def _report(out: Output, decided: Any) -> None:
    names = ", ".join(decided.names)
    by_id = f" ({decided.decision_id})" if decided.decision_id else ""
    out.text(f"{decided.action}{': ' if names else ''}{names}{by_id}, from the next palimpsest build on")
    out.result(decided.to_json())


# Commands over the graph of a scope: how things relate, how one changed, and what is near a node.


def _node_filter_options(f: _Command) -> _Command:
    """Adds --node-type and --where to a command."""
    f = click.option(
        "--where", help="Only nodes whose fields and metadata satisfy this, such as 'status = \"active\"'."
    )(f)
    return click.option("--node-type", "node_types", multiple=True, help="Only nodes of this type; may be repeated.")(f)


class _NodeGroup(click.Group):
    """A group whose first argument is a name where it is no command: `graph node NAME` shows a node."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((a for a in args if not a.startswith("-")), None)
        if args and first not in self.commands and not set(args) & set(ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group()
def graph() -> None:
    """Questions over the nodes, edges and facts of a scope. Every line cites the memories that it rests on."""


@graph.command(short_help="How the things that a question names relate.")
@common
@click.argument("text")
@scope_options
@privacy_options
@click.option("--k", type=click.IntRange(1, 100), default=5, show_default=True, help="How many lines.")
def relations(text: str, k: int, **options: Any) -> None:
    """How the things that TEXT names relate: facts, memories of both, and paths of two steps, best first."""
    _answer(lambda reader: reader.relations(text, k), ScopeOptions(**options))


@graph.command(short_help="How something changed, in the order of events.")
@common
@click.argument("text", metavar="NAME|TEXT")
@scope_options
@privacy_options
@click.option("--k", type=click.IntRange(1, 100), default=5, show_default=True, help="How many stages.")
def timeline(text: str, k: int, **options: Any) -> None:
    """How what NAME or a question names has changed: its stages in the order of events, and what replaced what."""
    _answer(lambda reader: reader.timeline(text, k), ScopeOptions(**options))


@graph.command(short_help="The nodes near one, and what is between them.")
@common
@click.argument("name")
@scope_options
@privacy_options
@click.option("--depth", type=click.IntRange(0, 4), default=2, show_default=True, help="How many steps away.")
@click.option("--types", help="Types of edges and predicates of facts to follow, separated by commas. [default: all]")
@_node_filter_options
def neighbours(
    name: str, depth: int, types: str | None, node_types: tuple[str, ...], where: str | None, **options: Any
) -> None:
    """The nodes up to --depth steps from NAME, and the facts and edges between them."""
    wanted = [t.strip() for t in (types or "").split(",") if t.strip()]
    _answer(lambda reader: reader.neighbors(name, depth, wanted, node_types, where), ScopeOptions(**options))


@graph.group(cls=_NodeGroup, short_help="Show a node: its facts and edges.")
def node() -> None:
    """Show the node NAME: its facts and edges. Or add, edit, merge or delete one, which every later build keeps.

    A node whose name is one of the commands is shown by `graph node show NAME`.
    """


@node.command(name="show", short_help="Show a node; the same as graph node NAME.")
@common
@click.argument("name")
@scope_options
@privacy_options
@_node_filter_options
def show_node(name: str, node_types: tuple[str, ...], where: str | None, **options: Any) -> None:
    """Show the nodes that have NAME, their facts and their edges."""
    _answer(lambda reader: reader.node(name, node_types, where), ScopeOptions(**options))


for _command in (add_node, edit_node, merge_nodes, delete_node):
    node.add_command(_command)
for _command in (edge, undo, decisions):
    graph.add_command(_command)


def _answer(question: "Callable[[GraphReader], GraphAnswer]", options: ScopeOptions) -> None:
    from palimpsest.query.graph.graph_answer import answer_text

    with options.open() as (reader, scopes):
        found = question(reader.graph(scopes, **options.shown))
    options.output.text(answer_text(found))
    options.output.result(found.to_json())
