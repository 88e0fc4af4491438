"""The worker process that reads sources for `pool`: a request is a path and a uri, a response what is read."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import cast

from palimpsest.core.ids import JsonObject
from palimpsest.sources.extracted import Scope
from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.serve_requests import serve_requests
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder


def main() -> None:
    """Reads sources until stdin ends."""
    limits = Limits.model_validate_json(sys.argv[1])
    dates = cast(DateOrder, sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else None
    defaults = Scope(*json.loads(sys.argv[3])) if len(sys.argv) > 3 else Scope()
    serve_requests(limits, partial(_read, limits=limits, dates=dates, defaults=defaults))


def _read(request: tuple[str, str], limits: Limits, dates: DateOrder | None, defaults: Scope) -> JsonObject:
    """Returns the documents and problems of a source.

    Raises:
        Rejected: it cannot be read.
    """
    path, uri = request
    extraction = read_source(Path(path), uri, limits, dates, defaults)
    return {
        "documents": [d.to_json() | {"first_line": d.first_line} for d in extraction.documents],
        "problems": extraction.problems,
        "left_out": dict(extraction.left_out),
        "warnings": extraction.warnings,
    }


if __name__ == "__main__":
    main()
