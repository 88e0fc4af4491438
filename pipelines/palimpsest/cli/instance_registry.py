"""The list of this user's instances: homes with names, each with its own port and, where wanted, its own Neo4j.

It is one JSON file of the user's data folder, replaced whole under a lock and readable by its owner alone.
"""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import platformdirs

from palimpsest.core.errors import ArgumentError, DamagedFile, PalimpsestError
from palimpsest.core.files import folder_lock, read_sealed_json, write_sealed_json
from palimpsest.core.ids import JsonRecord

Backend = Literal["duckdb", "neo4j"]
FIRST_PORT, MAX_INSTANCES = 8800, 1000
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_FIX = "restore it, or remove it and register your homes with palimpsest instance add"
_LOCK_WAIT_S = 30.0


@dataclass(frozen=True)
class Instance(JsonRecord):
    """A home with a name.

    Attributes:
        name: of it.
        home: its folder, absolute.
        port: of its service.
        backend: what its service reads.
        is_own: whether it was made here; a home that was registered stays where it is when its instance is deleted.
        created_at: when it was made or registered, ISO 8601 in UTC.
    """

    name: str
    home: Path
    port: int
    backend: Backend
    is_own: bool
    created_at: str

    @property
    def neo4j_home(self) -> Path:
        """The folder of its own Neo4j server."""
        return instances_folder() / self.name / "neo4j"


def instances_folder() -> Path:
    """Returns the folder of the registry and of the instances that were made here."""
    return platformdirs.user_data_path("palimpsest") / "instances"


def check_name(name: str) -> str:
    """Returns the name of an instance.

    Raises:
        ArgumentError: it cannot be one: it is the name of a folder too.
    """
    if not _NAME.fullmatch(name):
        raise ArgumentError("name", "must be 1 to 40 of a-z, 0-9 and -, not at its ends", name[:60])
    return name


def read_instances() -> dict[str, Instance]:
    """Returns the instances by name, sorted.

    Raises:
        DamagedFile: the registry is damaged.
        PalimpsestError: it is a link or belongs to another user.
    """
    path = _checked_path()
    listed = (read_sealed_json(path, _FIX) or {}).get("instances", {})
    if not isinstance(listed, dict):
        raise DamagedFile(path, _FIX)
    return {name: _instance(path, name, found) for name, found in sorted(listed.items())}


def find_instance(name: str) -> Instance:
    """Returns an instance.

    Raises:
        ArgumentError: there is none of that name.
    """
    known = read_instances()
    if (found := known.get(check_name(name))) is None:
        raise ArgumentError("name", f"no such instance; there is {', '.join(known) or 'none'}", name)
    return found


@contextmanager
def changing_instances() -> Iterator[dict[str, Instance]]:
    """Opens the registry for a change, which is written at the end of the block unless that raises.

    Yields:
        The instances by name, to be changed in place.

    Raises:
        ComponentFailed: another command does not let go of the registry.
    """
    folder = instances_folder()
    _checked_path()
    with folder_lock(folder, _LOCK_WAIT_S, f"{folder}: another command is changing the list of instances; run again"):
        known = read_instances()
        before = dict(known)
        yield known
        if known != before:
            _write(known)


def free_port(known: dict[str, Instance]) -> int:
    """Returns the first port that no instance has and nothing listens on now.

    Raises:
        PalimpsestError: there is none.
    """
    taken = {instance.port for instance in known.values()}
    for port in range(FIRST_PORT, FIRST_PORT + MAX_INSTANCES):
        if port not in taken and _is_free(port):
            return port
    raise PalimpsestError(f"no port from {FIRST_PORT} to {FIRST_PORT + MAX_INSTANCES - 1} is free; name --port")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _write(known: dict[str, Instance]) -> None:
    path = _checked_path()
    rows = {name: {k: v for k, v in i.to_json().items() if k != "name"} for name, i in known.items()}
    write_sealed_json(path, {"instances": rows})
    path.chmod(0o600)


def _checked_path() -> Path:
    """Returns the path of the registry.

    Raises:
        PalimpsestError: it or its folder is a link, or belongs to another user: it says which folders are removed.
    """
    path = instances_folder() / "registry.json"
    for part in (path.parent, path):
        if part.is_symlink():
            raise PalimpsestError(f"{part}: is a link; remove it, and register your homes with palimpsest instance add")
        if part.exists() and part.lstat().st_uid != os.geteuid():
            raise PalimpsestError(f"{part}: belongs to another user; change its owner, or remove it")
    return path


def _instance(path: Path, name: str, found: object) -> Instance:
    try:
        values = dict(found)  # type: ignore[call-overload]
        home, backend = Path(values["home"]), values["backend"]
        if not (_NAME.fullmatch(name) and home.is_absolute() and backend in ("duckdb", "neo4j")):
            raise ValueError(name)
        return Instance(
            name,
            home,
            int(values["port"]),
            cast(Backend, backend),
            values["is_own"] is True,
            str(values["created_at"]),
        )
    except (LookupError, TypeError, ValueError):
        raise DamagedFile(path, _FIX) from None
