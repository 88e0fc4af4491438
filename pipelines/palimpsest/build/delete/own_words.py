"""What Palimpsest and Dagster write into every home: comments, keys, names of tables.

A name such as `index` or `monitoring`, and a line of a document about Dagster, are in files of a home in which nobody
ever wrote them. They prove nothing there, and are searched for in the columns that have what people wrote.
"""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from palimpsest.build.delete.probes import Probes

_PACKAGES = ("palimpsest", "palimpsest_eval", "dagster")
_SUFFIXES = (".py", ".yaml", ".json", ".sql")


def split_probes(probes: Probes) -> tuple[Probes, Probes]:
    """Returns the probes that no home has of itself, and those that are in the source of what writes homes."""
    everywhere, in_columns = probes, Probes()
    for data in _sources() if probes else ():
        everywhere, found = everywhere.split(data)
        in_columns = in_columns.union(found)
    return everywhere, in_columns


def _sources() -> Iterator[bytes]:
    """Yields the source of each folder of the packages, and the words of the interpreter's own modules."""
    yield " ".join(sys.stdlib_module_names).encode()
    for package in _PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield b"\n".join(p.read_bytes() for p in sorted(Path(place).rglob("*")) if p.suffix in _SUFFIXES)
