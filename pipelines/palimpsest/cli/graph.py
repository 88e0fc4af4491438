"""Commands over the graph of a scope: how things relate, how one changed, and what is near a node."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from palimpsest.cli import graph_edit
from palimpsest.cli.query import ScopeOptions, privacy_options, scope_options
from palimpsest.cli.shared import common

if TYPE_CHECKING:
    from palimpsest.query.graph.graph_answer import GraphAnswer
    from palimpsest.query.graph.graph_reader import GraphReader


_Command = TypeVar("_Command", bound=Callable[..., object])


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


for _command in (graph_edit.add_node, graph_edit.edit_node, graph_edit.merge_nodes, graph_edit.delete_node):
    node.add_command(_command)
for _command in (graph_edit.edge, graph_edit.undo, graph_edit.decisions):
    graph.add_command(_command)


def _answer(question: "Callable[[GraphReader], GraphAnswer]", options: ScopeOptions) -> None:
    from palimpsest.query.graph.graph_answer import answer_text

    with options.open() as (reader, scopes):
        found = question(reader.graph(scopes, **options.shown))
    options.output.text(answer_text(found))
    options.output.result(found.to_json())
