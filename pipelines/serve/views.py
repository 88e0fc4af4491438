"""What the service answers about one memory, as JSON; what is not the caller's is not there."""

from palimpsest.core.json_types import JsonObject
from palimpsest.query.result import history_json, memory_json
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.problems import NotFound


def show_memory(view: CallerView, memory_id: str) -> JsonObject:
    """Returns one memory.

    Raises:
        NotFound: the caller has none with this id.
    """
    scopes = view.scopes()
    found = view.reader.memory(scopes, memory_id) if scopes else None
    if found is None:
        raise NotFound
    return memory_json(found)


def show_history(view: CallerView, memory_id: str) -> JsonObject:
    """Returns all versions of a memory's fact, newest first.

    Raises:
        NotFound: the caller has no memory with this id.
    """
    show_memory(view, memory_id)
    found = (view.reader.history_of(s, memory_id) for s in view.scopes())
    return {"versions": next((list(history_json(v)) for v in found if v), [])}


def check_own(view: CallerView, memory_id: str) -> None:
    """Checks that a memory is the caller's own, as what is deleted must be.

    Raises:
        NotFound: it is not.
    """
    scopes = view.own_scopes()
    if not scopes or view.reader.memory(scopes, memory_id, include_hidden=True, include_pii=True) is None:
        raise NotFound
