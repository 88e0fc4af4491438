"""Makes, registers, starts, stops and deletes instances, with all of their processes."""

import datetime as dt
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from palimpsest.cli.instance_registry import (
    Backend,
    Instance,
    changing_instances,
    check_name,
    find_instance,
    free_port,
    instances_folder,
    read_instances,
)
from palimpsest.cli.processes import (
    BUILDS,
    SERVICE,
    Component,
    ProcessStatus,
    start_builds,
    start_service,
    status,
    stop,
)
from palimpsest.core.errors import ArgumentError, ComponentFailed, DamagedFile, PalimpsestError
from palimpsest.core.files import read_format
from palimpsest.core.ids import JsonObject
from palimpsest.serve.settings import BuildTerms
from palimpsest.store.home import Home


@dataclass(frozen=True)
class InstanceStatus:
    """An instance with how its parts are.

    Attributes:
        instance: the instance.
        home: `built`, `empty` where nothing was built yet, or `gone`.
        service: of it; None where its record is damaged.
        builds: its nightly builds; None where their record is damaged.
        neo4j: whether its own Neo4j runs; None where it has none.
    """

    instance: Instance
    home: str
    service: ProcessStatus | None
    builds: ProcessStatus | None
    neo4j: bool | None

    @property
    def state(self) -> str:
        """The state of the service in one word or two."""
        return "damaged record" if self.service is None else self.service.state

    @property
    def port(self) -> int:
        """Where its service listens, which another command may have started; else where it will."""
        running = self.service is not None and self.service.state in ("running", "not ready")
        return self.service.record.port if running and self.service and self.service.record else self.instance.port

    def to_json(self) -> JsonObject:
        """Returns the fields as JSON values."""
        service, builds = (None if part is None else part.to_json() for part in (self.service, self.builds))
        parts: JsonObject = {"home_state": self.home, "state": self.state, "port": self.port, "neo4j": self.neo4j}
        return self.instance.to_json() | parts | {"service": service, "builds": builds}


def create_instance(name: str, port: int | None = None, backend: Backend = "duckdb") -> Instance:
    """Makes an instance: an empty home in the user's data folder, and a port of its own.

    Raises:
        ArgumentError: the name cannot be one, or is in use; the port is in use.
    """
    check_name(name)
    with changing_instances() as known:
        folder = instances_folder() / name
        if name in known or os.path.lexists(folder):
            raise ArgumentError("name", f"is in use ({folder}); choose another", name)
        instance = _new(known, name, folder / "home", port, backend, is_own=True)
        folder.mkdir(mode=0o700)
        Home(instance.home).create()
        known[name] = instance
    return instance


def add_instance(name: str, home: Path, port: int | None = None, backend: Backend = "duckdb") -> Instance:
    """Registers a home that exists under a name.

    Raises:
        ArgumentError: the name cannot be one, or is in use; the port is in use.
        PalimpsestError: the folder is no home, or has a name already.
    """
    check_name(name)
    if home.is_symlink() or read_format(home) is None:
        raise PalimpsestError(f"home {home}: is none; name a folder that palimpsest build made with --home")
    home = home.resolve()
    with changing_instances() as known:
        if name in known:
            raise ArgumentError("name", "is in use; choose another", name)
        if other := next((i.name for i in known.values() if i.home == home), None):
            raise PalimpsestError(f"home {home}: is the instance {other} already")
        known[name] = _new(known, name, home, port, backend, is_own=False)
    return known[name]


def list_instances() -> list[InstanceStatus]:
    """Returns all instances with how they are, by name."""
    return [_status(instance) for instance in read_instances().values()]


def instance_status(name: str) -> InstanceStatus:
    """Returns how one instance is."""
    return _status(find_instance(name))


def start_instance(name: str, with_builds: bool = False) -> InstanceStatus:
    """Starts all parts of an instance: its Neo4j first where it has one, then its service.

    With NEO4J_URI the service reads that server, and none is started.

    Args:
        name: of the instance.
        with_builds: start its nightly builds too.

    Raises:
        ComponentFailed: a part does not come up; the message has the reason.
    """
    instance = find_instance(name)
    if not instance.home.is_dir():
        raise ComponentFailed(f"instance {name}: its home {instance.home} is gone; restore it, or delete the instance")
    if instance.backend == "neo4j" and not os.environ.get("NEO4J_URI"):
        from palimpsest.neo4j_graph.local_server import start_server

        start_server(instance.neo4j_home)
    with instance_environment(instance):
        start_service(
            Home(instance.home), instance.port, instance.backend, builds=BuildTerms(0 if with_builds else None)
        )
        if with_builds:
            start_builds(Home(instance.home))
    return _status(instance)


def stop_instance(name: str, *, even_damaged: bool = False) -> list[str]:
    """Stops all parts of an instance; returns the names of those that ran.

    Args:
        name: of the instance.
        even_damaged: stop the other parts where the record of one is damaged: a process that nobody can name goes on.

    Raises:
        DamagedFile: a record is damaged.
    """
    instance, stopped = find_instance(name), []
    for component in (BUILDS, SERVICE):
        with suppress(*([DamagedFile] if even_damaged else [])):
            if stop(Home(instance.home), component):
                stopped.append(component.name)
    if _has_neo4j(instance):
        from palimpsest.neo4j_graph.local_server import stop_server

        if stop_server(instance.neo4j_home):
            stopped.append("neo4j")
    return stopped


def delete_instance(name: str, with_home: bool = False) -> Path | None:
    """Stops an instance and forgets it; returns the home that was removed, None where it was left where it is.

    What was made here goes with it. A home that was registered goes only `with_home`, and only where it is a home.

    Raises:
        PalimpsestError: what would be removed is a link, or no home.
    """
    instance = find_instance(name)
    folder = instances_folder() / name
    if instance.is_own or with_home:
        _check_removable(instance, folder)
    stop_instance(name, even_damaged=True)
    if (instance.is_own or with_home) and instance.home.is_dir():
        with Home(instance.home).lock():  # not below a build that is running
            shutil.rmtree(instance.home)
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    with changing_instances() as known:
        known.pop(name, None)
    return instance.home if instance.is_own or with_home else None


def instance_variables(instance: Instance) -> dict[str, str]:
    """Returns the environment variables with which every command is about an instance."""
    found = {
        "PALIMPSEST_HOME": str(instance.home),
        "PALIMPSEST_SERVE_PORT": str(instance.port),
        "PALIMPSEST_BACKEND": instance.backend,
    }
    return found | ({"PALIMPSEST_NEO4J_HOME": str(instance.neo4j_home)} if instance.backend == "neo4j" else {})


@contextmanager
def instance_environment(instance: Instance) -> Iterator[None]:
    """Sets the variables of an instance for the processes that are started inside the block."""
    variables = instance_variables(instance)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _new(
    known: dict[str, Instance], name: str, home: Path, port: int | None, backend: Backend, is_own: bool
) -> Instance:
    if port is not None and (other := next((i.name for i in known.values() if i.port == port), None)):
        raise ArgumentError("port", f"is that of instance {other}; choose another", port)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return Instance(name, home, free_port(known) if port is None else port, backend, is_own, now)


def _status(instance: Instance) -> InstanceStatus:
    is_built = read_format(instance.home) is not None
    home = "built" if is_built else "empty" if instance.home.is_dir() else "gone"
    service, builds = (_component_status(instance, component) for component in (SERVICE, BUILDS))
    return InstanceStatus(instance, home, service, builds, _neo4j_runs(instance))


def _component_status(instance: Instance, component: Component) -> ProcessStatus | None:
    try:
        return status(Home(instance.home), component)
    except DamagedFile:
        return None


def _has_neo4j(instance: Instance) -> bool:
    return instance.backend == "neo4j" and instance.neo4j_home.is_dir()


def _neo4j_runs(instance: Instance) -> bool | None:
    if instance.backend != "neo4j":
        return None
    from palimpsest.neo4j_graph.local_server import server_status

    return server_status(instance.neo4j_home).running


def _check_removable(instance: Instance, folder: Path) -> None:
    """Checks that what is removed is what it is taken for.

    Raises:
        PalimpsestError: it is a link, or no home.
    """
    for path in (folder, instance.home) if instance.is_own else (instance.home,):
        if path.is_symlink():
            raise PalimpsestError(f"instance {instance.name}: {path} is a link; nothing was removed: remove it by hand")
    is_inside = instance.home.parent == folder and instance.is_own
    if instance.home.exists() and not is_inside and read_format(instance.home) is None:
        raise PalimpsestError(
            f"instance {instance.name}: {instance.home} is no home (it has no format.json); nothing was removed"
        )
