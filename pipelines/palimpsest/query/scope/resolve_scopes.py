"""Which scopes a search reads: from names to the scopes of a build."""

from collections.abc import Iterable, Mapping, Sequence

from palimpsest.core.errors import ArgumentError
from palimpsest.query.request.types import CollectionInfo, Scope

_MAX_LISTED = 20
_MAX_NAME_CHARS = 60


def resolve_collection(collections: Mapping[str, CollectionInfo], name: str | None) -> str:
    """Returns the requested collection: the named one, else the only one, else the one marked default.

    Raises:
        ArgumentError: the collection is unknown, or none is named and none is the default.
    """
    if name is not None:
        if name not in collections:
            raise ArgumentError(
                "collection", f"not in this build; it has: {list_names(collections)}", _shorten_name(name)
            )
        return name
    chosen = list(collections) if len(collections) == 1 else [n for n, c in collections.items() if c.default]
    if len(chosen) != 1:
        hint = "or write default: true in the collection.yaml of one"
        raise ArgumentError("collection", f"name one of: {list_names(collections)}; {hint}")
    return chosen[0]


def resolve_user(collection: CollectionInfo, scopes: Sequence[Scope], name: str | None) -> str:
    """Returns the requested user of a collection: the named one, else the collection's default user.

    The default user may have no memories yet: that is an empty answer.

    Raises:
        ArgumentError: the named user is not in the collection, or there is no default user.
    """
    users = sorted({s.user_id for s in scopes if s.collection == collection.name})
    if name is None:
        chosen = collection.user_id or (users[0] if len(users) == 1 else None)
        if chosen is None:
            raise ArgumentError(
                "user", f"collection {collection.name} has no default user; it has: {list_names(users)}"
            )
        return chosen
    if users and name not in users:
        raise ArgumentError(
            "user", f"not in collection {collection.name}; it has: {list_names(users)}", _shorten_name(name)
        )
    return name


def check_names(
    collections: Mapping[str, CollectionInfo], scopes: Iterable[Scope], collection: str | None, user: str | None
) -> None:
    """Checks names that select scopes; None selects all. A collection's default user may have no memories yet.

    Raises:
        ArgumentError: the collection is unknown, or the user is unknown to it, or to all where none is named.
    """
    if collection is not None:
        resolve_collection(collections, collection)
    chosen = [c for c in collections.values() if collection in (None, c.name)]
    users = {s.user_id for s in scopes if collection in (None, s.collection)} | {c.user_id or "" for c in chosen} - {""}
    if user is not None and user not in users:
        where = f"collection {collection}" if collection else "this build"
        raise ArgumentError("user", f"not in {where}; it has: {list_names(users)}", _shorten_name(user))


def projects_of(scopes: Iterable[Scope], collection: str, user: str) -> list[str]:
    """Returns the projects in which a user of a collection has memories, sorted."""
    return sorted({s.project_id for s in scopes if s[:2] == (collection, user) and s.project_id})


def project_scopes(scopes: Sequence[Scope], collection: str, user: str, project: str | None) -> list[Scope]:
    """Returns what a search in a project reads: the project, then the user's general memory; without one the latter.

    Raises:
        ArgumentError: the user has no memories in that project.
    """
    general = Scope(collection, user)
    if not project:
        return [general]
    known = projects_of(scopes, collection, user)
    if project not in known:
        problem = f"not in collection {collection} for user {_shorten_name(user)}; projects there: {list_names(known)}"
        raise ArgumentError("project", problem, _shorten_name(project))
    return [Scope(collection, user, project), *([general] if general in scopes else [])]


def resolve_scopes(
    collections: Mapping[str, CollectionInfo],
    scopes: Sequence[Scope],
    *,
    collection: str | None = None,
    user: str | None = None,
    project: str | None = None,
    all_projects: bool = False,
    all_collections: bool = False,
) -> list[Scope]:
    """Returns the scopes that a search reads, by name.

    Args:
        collections: those of the build.
        scopes: every scope of the build that has a memory, sorted.
        collection: see `resolve_collection`.
        user: see `resolve_user`.
        project: read this project and the general memory; without it the general memory alone.
        all_projects: read all projects of the user and the general memory.
        all_collections: read every collection in which the user has memories.

    Raises:
        ArgumentError: a name is unknown, or two arguments exclude each other; the message lists the known names.
    """
    if project and all_projects:
        raise ArgumentError("all_projects", "excludes a project")
    if collection and all_collections:
        raise ArgumentError("all_collections", "excludes a collection")
    names = [resolve_collection(collections, collection)] if not all_collections else []
    if all_collections:
        user = user or resolve_user(collections[resolve_collection(collections, None)], scopes, None)
        names = [n for n in collections if any(s[:2] == (n, user) for s in scopes)]
        if not names:
            users = {s.user_id for s in scopes}
            raise ArgumentError("user", f"in no collection; users: {list_names(users)}", _shorten_name(user))
        if project:
            with_project = [n for n in names if project in projects_of(scopes, n, user)]
            if not with_project:
                known = {p for n in names for p in projects_of(scopes, n, user)}
                raise ArgumentError(
                    "project", f"in no collection; projects: {list_names(known)}", _shorten_name(project)
                )
            found = [s for n in with_project for s in project_scopes(scopes, n, user, project)]
            return sorted({*found, *(g for n in names if (g := Scope(n, user)) in scopes)})
    found = []
    for name in names:
        owner = resolve_user(collections[name], scopes, user)
        of_owner = [s for s in scopes if s[:2] == (name, owner)]
        found += of_owner if all_projects and of_owner else project_scopes(scopes, name, owner, project)
    return found


def list_names(names: Iterable[str]) -> str:
    """Returns names for an error: sorted, at most 20, each on one line and shortened."""
    known = sorted(names)
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return (", ".join(map(_shorten_name, known[:_MAX_LISTED])) or "none") + more


def _shorten_name(name: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= _MAX_NAME_CHARS else line[: _MAX_NAME_CHARS - 1] + "…"
