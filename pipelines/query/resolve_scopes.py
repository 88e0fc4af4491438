"""Which scopes a search reads: from the names that people give to the scopes that a build holds."""

from collections.abc import Iterable, Mapping, Sequence

from palimpsest.core.errors import ArgumentError
from palimpsest.query.request.types import CollectionInfo, Scope

_LISTED = 20
_SHOWN_CHARS = 60


def collection_named(collections: Mapping[str, CollectionInfo], name: str | None) -> str:
    """Returns the collection that is meant: the named one, else the only one, else the one marked default.

    Raises:
        ArgumentError: the collection is unknown, or none is named and it is not clear which is meant.
    """
    if name is not None:
        if name not in collections:
            raise ArgumentError("collection", f"not in this build; it has: {listed(collections)}", _shown(name))
        return name
    chosen = list(collections) if len(collections) == 1 else [n for n, c in collections.items() if c.default]
    if len(chosen) != 1:
        raise ArgumentError("collection", f"name one of: {listed(collections)}")
    return chosen[0]


def user_named(collection: CollectionInfo, scopes: Sequence[Scope], name: str | None) -> str:
    """Returns the user that is meant in a collection: the named one, else the collection's default user.

    The default user may have no memories yet: that is an empty answer.

    Raises:
        ArgumentError: the named user is not in the collection, or there is no default user.
    """
    users = sorted({s.user_id for s in scopes if s.collection == collection.name})
    if name is None:
        chosen = collection.user_id or (users[0] if len(users) == 1 else None)
        if chosen is None:
            raise ArgumentError("user", f"collection {collection.name} has no default user; it has: {listed(users)}")
        return chosen
    if users and name not in users:
        raise ArgumentError("user", f"not in collection {collection.name}; it has: {listed(users)}", _shown(name))
    return name


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
        problem = f"not in collection {collection} for user {_shown(user)}; projects there: {listed(known)}"
        raise ArgumentError("project", problem, _shown(project))
    return [Scope(collection, user, project), *([general] if general in scopes else [])]


def searched_scopes(
    collections: Mapping[str, CollectionInfo],
    scopes: Sequence[Scope],
    *,
    collection: str | None = None,
    user: str | None = None,
    project: str | None = None,
    all_projects: bool = False,
    all_collections: bool = False,
) -> list[Scope]:
    """Returns the scopes that a search reads, by the names that people give.

    Args:
        collections: those of the build.
        scopes: every scope of the build that holds a memory, sorted.
        collection: see `collection_named`.
        user: see `user_named`.
        project: read this project and the general memory; without it the general memory alone.
        all_projects: read all projects of the user and the general memory.
        all_collections: read every collection in which the user has memories.

    Raises:
        ArgumentError: a name is unknown, or two arguments exclude each other; the message lists what is known.
    """
    if project and all_projects:
        raise ArgumentError("all_projects", "excludes a project")
    if collection and all_collections:
        raise ArgumentError("all_collections", "excludes a collection")
    names = [collection_named(collections, collection)] if not all_collections else []
    if all_collections:
        user = user or user_named(collections[collection_named(collections, None)], scopes, None)
        names = [n for n in collections if any(s[:2] == (n, user) for s in scopes)]
        if not names:
            users = {s.user_id for s in scopes}
            raise ArgumentError("user", f"in no collection; users: {listed(users)}", _shown(user))
        if project:
            holding = [n for n in names if project in projects_of(scopes, n, user)]
            if not holding:
                known = {p for n in names for p in projects_of(scopes, n, user)}
                raise ArgumentError("project", f"in no collection; projects: {listed(known)}", _shown(project))
            found = [s for n in holding for s in project_scopes(scopes, n, user, project)]
            return sorted({*found, *(g for n in names if (g := Scope(n, user)) in scopes)})
    found = []
    for name in names:
        owner = user_named(collections[name], scopes, user)
        every = [s for s in scopes if s[:2] == (name, owner)]
        found += every if all_projects and every else project_scopes(scopes, name, owner, project)
    return found


def listed(names: Iterable[str]) -> str:
    """Returns names for an error: sorted, at most 20, each on one line and cut where it is long."""
    known = sorted(names)
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return (", ".join(map(_shown, known[:_LISTED])) or "none") + more


def _shown(name: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
