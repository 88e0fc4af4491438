"""The command that lists the scopes of a home: collections, users and projects."""

from pathlib import Path

import click

from palimpsest.cli.shared import Output, common


@click.command(short_help="List collections, users and projects.")
@common
@click.option("--collection", help="Only scopes of this collection.")
@click.option("--user", help="Only scopes of this user.")
def scopes(home_path: Path, as_json: bool, backend: str, collection: str | None, user: str | None) -> None:
    """List collections, users and projects of the published build, with the number of their memories."""
    from palimpsest.query.present import scopes_text
    from palimpsest.query.reader import open_home

    out = Output(as_json)
    with open_home(home_path, backend=backend) as reader:
        reader.check_names(collection, user)
        found = [
            (scope, size)
            for scope, size in reader.scope_sizes().items()
            if collection in (None, scope.collection) and user in (None, scope.user_id)
        ]
    out.text(scopes_text(found))
    out.result({"scopes": [{**scope._asdict(), "memories": size} for scope, size in found]})
