"""What the service answers about one memory, as JSON; what is not the caller's is not there."""

from palimpsest.core.types import JsonObject
from palimpsest.query.request.types import Scope
from palimpsest.query.result import history_json, memory_json
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.problems import NotFound, Problem


def show_memory(view: CallerView, memory_id: str) -> JsonObject:
    """Returns one memory, with what disputes it and what was said later about the same.

    Raises:
        NotFound: the caller has none with this id.
    """
    scopes = view.scopes()
    found = view.reader.memory_with_changes(scopes, memory_id) if scopes else None
    if found is None:
        raise NotFound
    return memory_json(found)


def show_history(view: CallerView, memory_id: str) -> JsonObject:
    """Returns all versions of a memory's fact, newest first.

    Raises:
        NotFound: the caller has no memory with this id.
    """
    scopes = view.scopes()
    if not scopes or view.reader.memory(scopes, memory_id) is None:
        raise NotFound
    found = (view.reader.history_of(s, memory_id) for s in scopes)
    return {"versions": next((list(history_json(v)) for v in found if v), [])}


def show_source(view: CallerView, memory_id: str, reach: int) -> JsonObject:
    """Returns a memory among those before and after it.

    Raises:
        NotFound: the caller has none with this id.
    """
    scopes = view.scopes()
    found = view.reader.surroundings(scopes, memory_id, reach) if scopes else []
    if not found:
        raise NotFound
    return {"memory_id": memory_id, "memories": [memory_json(m) for m in found]}


def own_scope(view: CallerView, memory_id: str) -> Scope:
    """Returns the scope of a memory that is the caller's own and that the caller may see.

    Raises:
        NotFound: there is none.
    """
    for scope in view.own_scopes():
        if view.reader.memory([scope], memory_id) is not None:
            return scope
    raise NotFound


def retiring_relation(view: CallerView, memory_id: str) -> str:
    """Returns the id of the UPDATE that retired one of the caller's own memories.

    Raises:
        Problem: no UPDATE did.
    """
    for scope in view.own_scopes():
        for version in view.reader.history_of(scope, memory_id):
            if version.memory.memory_id == memory_id and version.why is not None and version.why.relation_id:
                return str(version.why.relation_id)
    raise Problem(409, "no update retired it")


def check_own(view: CallerView, memory_id: str) -> None:
    """Checks that a memory is the caller's own, as what is deleted must be.

    Raises:
        NotFound: it is not.
    """
    scopes = view.own_scopes()
    if not scopes or view.reader.memory(scopes, memory_id, include_hidden=True, include_pii=True) is None:
        raise NotFound
