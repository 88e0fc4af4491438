"""The format of a home: of its index, and of what a version must know to read or write the rest.

It is written with each published build. A home of an earlier format is upgraded; one of a later format is refused.
"""

import json
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.sealed_json import unsealed, write_sealed_json

FORMAT = 12
FORMAT_FILE = "format.json"


def write_format(home: Path) -> None:
    """Records that this version published a build in the home; nothing where that is recorded already."""
    if read_format(home) != FORMAT:
        write_sealed_json(home / FORMAT_FILE, {"format": FORMAT})


def read_format(home: Path) -> int | None:
    """Returns the format that a home records; None where an earlier version wrote it, or the file is damaged.

    Raises:
        PermissionError: this user may not read it.
    """
    try:
        found = unsealed(json.loads((home / FORMAT_FILE).read_text(encoding="utf-8")))["format"]
    except PermissionError:
        raise  # it is not damaged
    except (OSError, ValueError, AttributeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, int) else None


def check_format(home: Path) -> None:
    """Checks that this version may read and write a home.

    Raises:
        PalimpsestError: a newer version of Palimpsest wrote it.
    """
    if (found := read_format(home)) is not None and found > FORMAT:
        raise PalimpsestError(
            f"home {home}: written by a newer version of Palimpsest (format {found}, this version knows {FORMAT}); "
            "upgrade Palimpsest, or name another --home"
        )
