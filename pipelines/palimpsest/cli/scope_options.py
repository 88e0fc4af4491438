"""Options of the commands that read scopes of a home, and the reader of what they name."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click

from palimpsest.cli.shared import Output

if TYPE_CHECKING:
    from palimpsest.query.reader import Reader
    from palimpsest.query.request.types import Scope

_Command = TypeVar("_Command", bound=Callable[..., object])


def scope_options(f: _Command) -> _Command:
    """Adds --collection, --user and --project to a command."""
    f = click.option("--project", help="This project and the general memory. [default: the general memory alone]")(f)
    f = click.option("--user", help="Whose memories. [default: the collection's user_id]")(f)
    return click.option("--collection", help="Collection to read. [default: the only one, or the one marked default]")(
        f
    )


def privacy_options(f: _Command) -> _Command:
    """Adds --include-pii and --include-hidden to a command."""
    f = click.option("--include-pii", is_flag=True, help="Also what is marked pii: true: personal data.")(f)
    return click.option("--include-hidden", is_flag=True, help="Also what is marked user_visible: false.")(f)


class Shown(TypedDict):
    """What is shown besides what anybody may see."""

    include_hidden: bool
    include_pii: bool


@dataclass(frozen=True)
class ScopeOptions:
    """The values of `common`, `scope_options` and `privacy_options` of one call."""

    home_path: Path
    as_json: bool
    backend: str
    collection: str | None
    user: str | None
    project: str | None
    include_hidden: bool = False
    include_pii: bool = False

    @property
    def output(self) -> Output:
        """Where the result goes."""
        return Output(self.as_json)

    @property
    def shown(self) -> Shown:
        """The values of `privacy_options`, as the reader takes them."""
        return {"include_hidden": self.include_hidden, "include_pii": self.include_pii}

    @contextmanager
    def open(self, *, all_collections: bool = False) -> Iterator[tuple["Reader", Sequence["Scope"]]]:
        """Opens the home.

        Args:
            all_collections: every collection in which the user has memories.

        Yields:
            The reader, and the scopes that the options name.

        Raises:
            PalimpsestError: nothing is published there, or the build has no such scope.
        """
        from palimpsest.query.reader import open_home

        with open_home(self.home_path, backend=self.backend) as reader:
            yield (
                reader,
                reader.resolve_scopes(self.collection, self.user, self.project, all_collections=all_collections),
            )
