"""The pointer of a home to the build that readers see: `published.json`."""

import json
from pathlib import Path

from palimpsest.core.errors import DamagedPointer, PalimpsestError
from palimpsest.core.home_format import check_format
from palimpsest.core.sealed_json import unsealed, write_sealed_json

POINTER = "published.json"


def published_build_id(home: Path) -> str | None:
    """Returns the name of the published build's folder, or None where nothing was published.

    Raises:
        DamagedPointer: the pointer is damaged.
        PalimpsestError: a newer version of Palimpsest wrote the home, or it is no folder.
        PermissionError: this user may not read it.
    """
    check_format(home)
    damaged = f"home {home}: {POINTER} is damaged; run palimpsest build --home {home}, which repairs it"
    try:
        build_id = unsealed(json.loads((home / POINTER).read_text(encoding="utf-8")))["build"]
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise PalimpsestError(f"home {home}: not a folder; name another --home") from None
    except PermissionError:
        raise  # it is not damaged
    except (OSError, ValueError, RecursionError, AttributeError, KeyError):
        raise DamagedPointer(home / POINTER, damaged) from None
    if not isinstance(build_id, str) or not build_id.isascii() or not build_id.isdigit():
        raise DamagedPointer(home / POINTER, damaged)
    return build_id


def nothing_published(name: str) -> str:
    """Returns the message for a home without a published build; `name` is what `--home` names it by."""
    return f"home {name}: it has no published build; run palimpsest build --home {name}"


def write_pointer(home: Path, build_id: str) -> None:
    """Makes readers see another build, in one rename."""
    write_sealed_json(home / POINTER, {"build": build_id})
