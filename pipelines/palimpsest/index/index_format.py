"""The format of an index, whichever version of Palimpsest wrote it, and the label of its links of disputes."""

import json
from pathlib import Path

import duckdb

DISPUTE = "UPDATE_DISPUTED"
"""The label of a link from a newer memory to an older one that it may end, while both are latest."""
_FORMAT = "SELECT value FROM meta WHERE key = 'format'"


def index_format(path: Path) -> int | None:
    """Returns the format that an index states; None where it is missing or cannot be read."""
    if not path.is_file():
        return None
    try:
        with duckdb.connect(str(path), read_only=True) as db:
            row = db.execute(_FORMAT).fetchone()
        return None if row is None else int(json.loads(row[0]))
    except (duckdb.Error, ValueError, TypeError):
        return None
