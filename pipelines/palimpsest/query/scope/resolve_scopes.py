"""Which scopes a search reads, from names to the scopes of a build, and what it looks for in each."""

import datetime as dt
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from palimpsest.core.errors import ArgumentError
from palimpsest.query.embed_query import embed_query
from palimpsest.query.request.search_request import SearchRequest, narrow_to_tiers
from palimpsest.query.request.types import CollectionInfo, Scope
from palimpsest.query.request.where import Condition, Kind, Where
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.scope_query import NodeSearch, ScopeQuery, resolve_query
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.scope.view import MEMORY_FIELDS, METADATA
from palimpsest.store.usage_log import DAYS_VARIABLE, UsageLog

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


def usual_collection(scopes: Iterable[Scope], user: str | None) -> str | None:
    """Returns the collection that has all memories of a named user; None where there is none, or there are several.

    The inbox chooses by the same rule, so that what was sent without a collection is found without one.
    """
    found = {s.collection for s in scopes if s.user_id == user}
    return found.pop() if len(found) == 1 else None


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
        collection: default: see `usual_collection`, then `resolve_collection`.
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
    names = []
    if not all_collections:
        names = [resolve_collection(collections, collection or usual_collection(scopes, user))]
        _check_default(names[0] if collection is None else None, scopes, user)
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


def _check_default(chosen: str | None, scopes: Sequence[Scope], user: str | None) -> None:
    """Checks a collection that nobody named.

    Raises:
        ArgumentError: it has nothing of the named user, and several others have.
    """
    of_user = {s.collection for s in scopes if s.user_id == user}
    if chosen is not None and of_user and chosen not in of_user:
        problem = f"{_shorten_name(user or '')} has memories in {list_names(of_user)}; name one of them"
        raise ArgumentError("collection", problem)


def list_names(names: Iterable[str]) -> str:
    """Returns names for an error: sorted, at most 20, each on one line and shortened."""
    known = sorted(names)
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return (", ".join(map(_shorten_name, known[:_MAX_LISTED])) or "none") + more


def _shorten_name(name: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= _MAX_NAME_CHARS else line[: _MAX_NAME_CHARS - 1] + "…"


# What a search looks for in each scope.


def resolve_queries(
    request: SearchRequest, text: str, backend: Backend, clock: dt.datetime, usage: UsageLog | None
) -> list[ScopeQuery]:
    """Returns the query of each scope of a request, sorted by scope.

    Args:
        request: the search.
        text: its question, resolved.
        backend: the store of the build.
        clock: the real time.
        usage: reads of memories; None where none are counted.

    Raises:
        ArgumentError: the project or the strategy is unknown, a field of `where` is in none of the scopes, or reads are
            not counted for as long as `accessed_within` asks.
    """
    scopes: Sequence[Scope] = request.scopes
    if request.project:
        known = backend.scopes()
        scopes = sorted({s for at in scopes for s in project_scopes(known, *at[:2], request.project)})
    filters = request.filters(clock)
    accessed = _accessed(request, clock, usage)
    narrowed = {s: narrow_to_tiers(replace(filters, accessed=accessed(s)), s, request.tiers) for s in scopes}
    served = [ServedScope(backend, s, narrowed[s]) for s in scopes]
    if filters.where is not None:
        check_fields(filters.where, served)
    nodes = NodeSearch(request.narrow, request.node_types, request.node_where, request.depth)
    vectors = {space: embed_query(text, space) for space in {s.space for s in served}}
    return [resolve_query(s, text, vectors[s.space], request.strategy, nodes) for s in served]


def _accessed(
    request: SearchRequest, clock: dt.datetime, usage: UsageLog | None
) -> Callable[[Scope], frozenset[str] | None]:
    """Returns what gives the memories of a scope that were read recently enough; None where that is no filter.

    Raises:
        ArgumentError: no reads are counted, or they are kept for fewer days.
    """
    if request.accessed_within is None:
        return lambda _: None
    if usage is None:
        raise ArgumentError(
            "accessed_within",
            f"no reads are counted here: {DAYS_VARIABLE} is 0, or the reader was not opened by open_home",
        )
    if request.accessed_within > dt.timedelta(days=usage.days):
        raise ArgumentError(
            "accessed_within", f"reads are kept for {usage.days} days; ask for less, or set {DAYS_VARIABLE}"
        )
    since = clock - request.accessed_within
    return lambda scope: usage.accessed_since(scope, since)


# Checks that the fields of a `where` exist in what a search reads, and that they are compared with their own kind.

_MAX_NAMED = 12
_A_KIND = {"text": "a text", "number": "a number", "date": "a date", "boolean": "true or false"}
_EXAMPLES = {"text": '"word"', "number": "3", "date": "2026-05-31", "boolean": "true"}


def check_fields(where: Where, scopes: Iterable[ServedScope]) -> None:
    """Checks the fields of an expression against metadata_schema, the metadata of visible memories, and memories.

    Raises:
        ArgumentError: a field is in none of the scopes, or all its values are of other kinds than it is compared with.
    """
    known = _known_fields(scopes)
    for condition in where.conditions():
        name = condition.field if condition.field in MEMORY_FIELDS else condition.field.removeprefix(METADATA)
        kinds = frozenset({MEMORY_FIELDS[name]}) if condition.field in MEMORY_FIELDS else known.get(name)
        if kinds is None:
            raise ArgumentError("where", _unknown_field(condition.field, known))
        if kinds:
            _check_values(condition, kinds)


def _known_fields(scopes: Iterable[ServedScope]) -> dict[str, frozenset[Kind]]:
    """Returns the fields of metadata by name; the kinds of a schema are those of its field, dates in texts apart."""
    known: dict[str, frozenset[Kind]] = {}
    for served in scopes:
        info = served.backend.collections().get(served.scope.collection)
        declared = {name: frozenset(kinds) for name, kinds in info.fields.items()} if info else {}
        stated = served.field_kinds()
        for name in declared.keys() | stated.keys():
            kinds = stated.get(name, frozenset())
            if of_schema := declared.get(name):
                kinds = of_schema | (kinds & {"date"} if "text" in of_schema else frozenset())
            known[name] = known.get(name, frozenset()) | kinds
    return known


def _check_values(condition: Condition, kinds: frozenset[Kind]) -> None:
    for value in condition.values:
        if value.kind in kinds or (value.kind == "text" and "date" in kinds and value.is_date):
            continue
        named = " or ".join(_A_KIND[k] for k in sorted(kinds))
        example = _EXAMPLES[min(kinds)]
        raise ArgumentError(
            "where",
            f"{_shorten_name(condition.field)} is {named}, and {_shorten_name(value.written)} is {_A_KIND[value.kind]};"
            f" compare it with a value such as {example}",
        )


def _unknown_field(name: str, known: Mapping[str, frozenset[Kind]]) -> str:
    """Returns what is wrong with a name, and the closest known ones."""
    fields = sorted({*known, *MEMORY_FIELDS})
    close = difflib.get_close_matches(name.removeprefix(METADATA), fields, n=3, cutoff=0.5)
    listed = close or [*sorted(known)[:_MAX_NAMED], *MEMORY_FIELDS][:_MAX_NAMED]
    names = ", ".join(_shorten_name(n) for n in listed)
    return f"no memory here has a field {_shorten_name(name)!r}; {'did you mean' if close else 'fields are'} {names}"
