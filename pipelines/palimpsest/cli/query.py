"""Commands that read a home: search memories, and show what a name refers to."""

from pathlib import Path
from typing import Any

import click

from palimpsest.cli.shared import STRATEGY, Output, common
from palimpsest.query.request.search_schema import SOURCES
from palimpsest.store.decisions import Verdict
from palimpsest.store.home import Home


@click.command(short_help="Search memories: ranked results, then the cited context.")
@common
@click.argument("text")
@click.option("--collection", help="Collection to search. [default: the only one, or the one marked default]")
@click.option("--user", help="Whose memories. [default: the collection's user_id]")
@click.option("--project", help="Search this project and the general memory. [default: the general memory alone]")
@click.option("--all-projects", is_flag=True, help="Search all projects of the user and the general memory.")
@click.option("--all-collections", is_flag=True, help="Search every collection of the user.")
@click.option("--session", help="Only memories of this session.")
@click.option("--k", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many memories at most.")
@click.option("--all-results", is_flag=True, help="Also results that are hardly evidence, up to --k.")
@click.option(
    "--hops", type=click.IntRange(0, 2), default=1, show_default=True, help="Relations followed from the seeds."
)
@click.option(
    "--strategy",
    type=STRATEGY,
    default="auto",
    show_default=True,
    help="How to rank.",
)
@click.option("--narrow", is_flag=True, help="With --strategy hierarchical: only memories of the nodes found.")
@click.option("--node-type", "node_types", multiple=True, help="With the same: a type of nodes to start from.")
@click.option(
    "--node-where",
    help="With the same: what fields and metadata of these nodes satisfy, such as 'status = \"active\"'.",
)
@click.option(
    "--depth", type=click.IntRange(0, 2), default=1, show_default=True, help="With the same: edges to follow."
)
@click.option("--as-of", help="What was latest on this date (ISO 8601). A question may name one in words.")
@click.option("--history", is_flag=True, help="Also what is no longer latest, with what replaced it and why.")
@click.option("--type", "types", multiple=True, help="Only memories of this type; several times: of any of them.")
@click.option(
    "--tier",
    "tiers",
    type=click.Choice(["personal", "project", "task"], case_sensitive=False),
    multiple=True,
    help="Only the user's general memory, that of projects, or tasks; several times: any of them.",
)
@click.option("--tag", "tags", multiple=True, help="Only memories with this tag; several times: with any of them.")
@click.option(
    "--where", help="Only memories whose fields satisfy this, such as 'category = \"academic\" and year >= 2024'."
)
@click.option("--accessed-within", help="Only memories that a search returned in the last 12h, 30d or 4w.")
@click.option(
    "--min-score", type=float, help="Only memories whose best cosine with the question is at least this, -1 to 1."
)
@click.option("--since", help="Only memories observed on or after this date.")
@click.option("--until", help="Only memories observed on or before this date.")
@click.option("--now", help="Time of the question: last week counts from it; what is not valid then is left out.")
@click.option("--budget", type=click.IntRange(50), default=1200, show_default=True, help="Tokens of packed context.")
@click.option("--turn", "turns", multiple=True, help="What was written before; repeat it, oldest first.")
@click.option(
    "--task", default="", help="The task: uri or title of its source of type task. Its text leads the context."
)
@click.option("--brief", default="", help="What the task is about: what fits it ranks a little higher.")
@click.option("--path", "paths", multiple=True, help="A file of the task; repeat it. Its sources rank a little higher.")
@click.option(
    "--reranker",
    help="lm, or a cross-encoder (folder or name), which reads the best 30. [default: $PALIMPSEST_RERANKER, else none]",
)
@click.option(
    "--compress",
    type=click.Choice(["words", "lm", "none"]),
    default="words",
    show_default=True,
    help="What picks sentences of long memories that do not fit: the question's words, PALIMPSEST_LM's model, or none "
    "for whole memories only.",
)
@click.option(
    "--sources",
    type=click.Choice(SOURCES),
    default="short",
    show_default=True,
    help="How the context cites: by number with a line for each document, by id with each place, or without sources.",
)
@click.option("--subgraph", is_flag=True, help="Also the nodes, edges and facts of the results, and how they relate.")
@click.option("--explain", is_flag=True, help="Say why each memory is there.")
@click.option("--message", "as_message", is_flag=True, help="Print the context as one message of a chat.")
@click.option("--abstain", is_flag=True, help="Return no memories where none is likely to hold an answer.")
@click.option("--include-pending", is_flag=True, help="Also what was remembered and is not built yet, by words.")
@click.option("--include-hidden", is_flag=True, help="Also what is marked user_visible: false.")
@click.option("--include-pii", is_flag=True, help="Also what is marked pii: true: personal data.")
def query(
    home_path: Path,
    as_json: bool,
    backend: str,
    text: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    all_projects: bool,
    all_collections: bool,
    reranker: str | None,
    explain: bool,
    as_message: bool,
    **filters: Any,
) -> None:
    """Search memories by scope: ranked memories, then the packed, cited context."""
    from palimpsest.query import present
    from palimpsest.query.reader import open_home

    out = Output(as_json)
    compressor = "lm" if filters["compress"] == "lm" else None
    with open_home(home_path, backend=backend, reranker=reranker, compressor=compressor) as reader:
        scopes = reader.resolve_scopes(
            collection,
            user,
            project,
            all_projects=all_projects,
            all_collections=all_collections,
            include_pending=filters["include_pending"],
        )
        filters["budget_tokens"] = filters.pop("budget")
        results = reader.search(text, scopes, explain=explain, **filters)
        out.text(results.message()["content"] if as_message else present.results_text(results, explain))
        out.result(results.to_json() | ({"message": {**results.message()}} if as_message else {}))


@click.command(short_help="Show what a name refers to, or decide it.")
@common
@click.argument("name")
@click.argument("other", required=False)
@click.option("--same", "verdict", flag_value="same", help="NAME and OTHER are one, from the next build on.")
@click.option("--apart", "verdict", flag_value="apart", help="NAME and OTHER are two, from the next build on.")
@click.option("--undecided", "verdict", flag_value="undecided", help="Take such a decision back.")
@click.option("--collection", help="Collection of the names. [default: the only one, or the one marked default]")
@click.option("--user", help="Whose names. [default: the collection's user_id]")
@click.option("--project", default="", help="Project of the names. [default: the general memory]")
def entity(
    home_path: Path,
    as_json: bool,
    backend: str,
    name: str,
    other: str | None,
    verdict: Verdict | None,
    collection: str | None,
    user: str | None,
    project: str,
) -> None:
    """Show what a name refers to and why, or decide that two names are one, or are not."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.entities import entity_decisions
    from palimpsest.query.reader import open_home

    if (other is None) != (verdict is None):
        raise click.UsageError(
            "two names need one of --same, --apart or --undecided; to look up one name, give it alone"
        )
    out, home = Output(as_json), Home(home_path)
    with open_home(home_path, backend=backend) as reader:
        scope = reader.resolve_scope(collection, user, project)
    if other is None or verdict is None:
        found = entity_decisions.explain_entity(home, scope, name)
        out.text(entity_decisions.entity_text(found))
        out.result({"entities": [entity.to_json() for entity in found]})
        return
    decision = entity_decisions.decide_names(home, scope, name, other, verdict)
    out.text(f"{name} and {other}: {verdict}, from the next palimpsest build on")
    out.result(decision.to_json())
