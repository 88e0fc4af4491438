"""Commands over the graph of a scope: how things relate, how one changed, and what is near a node."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from palimpsest.cli.query import ScopeCall, privacy_options, scope_options
from palimpsest.cli.shared import WHICH_COLLECTION, Call, Output, common, common_options, gathered
from palimpsest.core.ids import GENERAL
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


def _scope_options(f: Callable[..., object]) -> Callable[..., object]:
    """Adds --collection, --user and --project, the one scope that is decided about; the command gets a `ScopeCall`."""
    f = gathered(ScopeCall)(f)
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
@common_options
@click.argument("name")
@_node_options
@_scope_options
def add_node(
    given: ScopeCall,
    name: str,
    type_: str | None,
    description: str | None,
    aliases: tuple[str, ...],
    importance: float | None,
    properties: _Properties,
) -> None:
    """Add the node NAME. Every later build keeps it, until `graph undo` or until its scope is deleted."""
    values = NodeValues(
        type=type_, description=description, aliases=aliases, importance=importance, properties=properties
    )
    _decide(lambda nodes, home, scope: nodes.add_node(home, scope, name, values), given)


@click.command(name="edit", short_help="Change a node, from the next build on.")
@common_options
@click.argument("name")
@click.option("--name", "new_name", help="Its new name; the old one becomes an alias.")
@_node_options
@_scope_options
def edit_node(
    given: ScopeCall,
    name: str,
    new_name: str | None,
    type_: str | None,
    description: str | None,
    aliases: tuple[str, ...],
    importance: float | None,
    properties: _Properties,
) -> None:
    """Change the node NAME, a name or an id. What is not given stays as the texts show it."""
    values = NodeValues(new_name, type_, description, aliases, importance, properties=properties)
    _decide(lambda nodes, home, scope: nodes.edit_node(home, scope, name, values), given)


@click.command(name="merge", short_help="Make two nodes one, from the next build on.")
@common_options
@click.argument("name")
@click.argument("other")
@_scope_options
def merge_nodes(given: ScopeCall, name: str, other: str) -> None:
    """Make OTHER part of NAME: its memories, edges and names. Two entities become one, as with `entity --same`."""
    _decide(lambda nodes, home, scope: nodes.merge_nodes(home, scope, name, other), given)


@click.command(name="delete", short_help="Hide a node and its edges, from the next build on.")
@common_options
@click.argument("name")
@_scope_options
def delete_node(given: ScopeCall, name: str) -> None:
    """Hide the node NAME and its edges. Its memories stay: `palimpsest delete` removes what texts say."""
    _decide(lambda nodes, home, scope: nodes.delete_node(home, scope, name), given)


@click.group(short_help="Add or delete an edge between two nodes.")
def edge() -> None:
    """Add or delete an edge between two nodes, from the next build on."""


@edge.command(name="add", short_help="Add an edge.")
@common_options
@click.argument("source")
@click.argument("target")
@click.option("--type", "type_", type=_EDGE_TYPES, default="related_to", show_default=True, help="Its type.")
@click.option("--weight", type=_SHARE, default=1.0, show_default=True, help="From 0 to 1.")
@_scope_options
def add_edge(given: ScopeCall, source: str, target: str, type_: str, weight: float) -> None:
    """Add an edge from the node SOURCE to the node TARGET."""
    values = NodeValues(type=type_, weight=weight)
    _decide(lambda nodes, home, scope: nodes.add_edge(home, scope, source, target, values), given)


@edge.command(name="delete", short_help="Delete an edge.")
@common_options
@click.argument("source")
@click.argument("target")
@click.option("--type", "type_", type=_EDGE_TYPES, help="Only of this type. [default: every type]")
@_scope_options
def delete_edge(given: ScopeCall, source: str, target: str, type_: str | None) -> None:
    """Delete the edges from the node SOURCE to the node TARGET; no later build makes them again."""
    _decide(lambda nodes, home, scope: nodes.delete_edge(home, scope, source, target, type_), given)


@click.command(name="undo", short_help="Take a decision about nodes or edges back.")
@common
@click.argument("decision_id")
def undo(call: Call, decision_id: str) -> None:
    """Take the decision DECISION_ID back, from the next build on. `graph decisions` lists them."""
    from palimpsest.nodes import node_decisions

    _report(call, node_decisions.undo(call.home, decision_id))


@click.command(name="decisions", short_help="List what people decided of nodes and edges.")
@common
def decisions(call: Call) -> None:
    """List the decisions about nodes and edges that apply, with the ids by which `graph undo` takes them back."""
    from palimpsest.nodes.node_decisions import decision_rows

    rows = decision_rows(call.home)
    hidden = ("decision_id", "action", "at")
    lines = [
        f"{r['decision_id']}  {r['action']}  " + ", ".join(f"{k} {v}" for k, v in r.items() if k not in hidden)
        for r in rows
    ]
    call.show("\n".join(lines) or "no decisions about nodes and edges", {"decisions": rows})


def _decide(decide: Callable[[Any, Home, Any], Any], given: ScopeCall) -> None:
    from palimpsest.nodes import node_decisions
    from palimpsest.query.reader import open_home

    with open_home(given.home_path, backend=given.backend) as reader:
        scope = reader.resolve_scope(given.collection, given.user, given.project or GENERAL)
    _report(given, decide(node_decisions, given.home, tuple(scope)))


def _report(out: Output, decided: Any) -> None:
    names = ", ".join(decided.names)
    by_id = f" ({decided.decision_id})" if decided.decision_id else ""
    out.text(f"{decided.action}{': ' if names else ''}{names}{by_id}, from the next palimpsest build on")
    out.result(decided.to_json())


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
@click.argument("text")
@scope_options
@privacy_options
@click.option("--k", type=click.IntRange(1, 100), default=5, show_default=True, help="How many lines.")
def relations(given: ScopeCall, text: str, k: int) -> None:
    """How the things that TEXT names relate: facts, memories of both, and paths of two steps, best first."""
    _answer(lambda reader: reader.relations(text, k), given)


@graph.command(short_help="How something changed, in the order of events.")
@click.argument("text", metavar="NAME|TEXT")
@scope_options
@privacy_options
@click.option("--k", type=click.IntRange(1, 100), default=5, show_default=True, help="How many stages.")
def timeline(given: ScopeCall, text: str, k: int) -> None:
    """How what NAME or a question names has changed: its stages in the order of events, and what replaced what."""
    _answer(lambda reader: reader.timeline(text, k), given)


@graph.command(short_help="The nodes near one, and what is between them.")
@click.argument("name")
@scope_options
@privacy_options
@click.option("--depth", type=click.IntRange(0, 4), default=2, show_default=True, help="How many steps away.")
@click.option("--types", help="Types of edges and predicates of facts to follow, separated by commas. [default: all]")
@_node_filter_options
def neighbours(
    given: ScopeCall, name: str, depth: int, types: str | None, node_types: tuple[str, ...], where: str | None
) -> None:
    """The nodes up to --depth steps from NAME, and the facts and edges between them."""
    wanted = [t.strip() for t in (types or "").split(",") if t.strip()]
    _answer(lambda reader: reader.neighbors(name, depth, wanted, node_types, where), given)


@graph.group(cls=_NodeGroup, short_help="Show a node: its facts and edges.")
def node() -> None:
    """Show the node NAME: its facts and edges. Or add, edit, merge or delete one, which every later build keeps.

    A node whose name is one of the commands is shown by `graph node show NAME`.
    """


@node.command(name="show", short_help="Show a node; the same as graph node NAME.")
@click.argument("name")
@scope_options
@privacy_options
@_node_filter_options
def show_node(given: ScopeCall, name: str, node_types: tuple[str, ...], where: str | None) -> None:
    """Show the nodes that have NAME, their facts and their edges."""
    _answer(lambda reader: reader.node(name, node_types, where), given)


for _command in (add_node, edit_node, merge_nodes, delete_node):
    node.add_command(_command)
for _command in (edge, undo, decisions):
    graph.add_command(_command)


def _answer(question: "Callable[[GraphReader], GraphAnswer]", given: ScopeCall) -> None:
    from palimpsest.query.graph.graph_answer import answer_text

    with given.open() as (reader, scopes):
        found = question(reader.graph(scopes, **given.shown))
    given.text(answer_text(found))
    given.result(found.to_json())
