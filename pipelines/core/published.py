"""The pointer of a home to the build that readers see: `published.json`."""

import json
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.home_format import check_format


def published_build_id(home: Path) -> str | None:
    """Returns the name of the published build's folder, or None where nothing was published.

    Raises:
        PalimpsestError: the pointer is damaged, or a newer version of Palimpsest wrote the home.
    """
    check_format(home)
    damaged = f"home {home}: published.json is damaged; restore it, or remove it and run palimpsest build --home {home}"
    try:
        value = json.loads((home / "published.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise PalimpsestError(f"home {home}: not a folder; name another --home") from None
    except (OSError, ValueError, RecursionError):
        raise PalimpsestError(damaged) from None
    build_id = value.get("build") if isinstance(value, dict) else None
    if not isinstance(build_id, str) or not build_id.isascii() or not build_id.isdigit():
        raise PalimpsestError(damaged)
    return build_id
