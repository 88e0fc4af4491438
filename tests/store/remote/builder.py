"""A builder in a process of its own: sends a text, builds, and writes what it did line by line.

python -m tests.store.remote.builder URL VECTORS CORPUS TEXT
"""

import sys
from pathlib import Path

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home, send_unwritten
from palimpsest.store.remote_home import local_home

_WAIT_S = 60.0


def main(url: str, vectors: str, corpus: str, text: str) -> None:
    """Sends a text to the home and builds it."""
    home = Home(local_home(url), Path(vectors))
    sys.stdout.write("started\n")
    sys.stdout.flush()
    if text:
        ingest_text(home, text, user="ann", collection="chats")
        sys.stdout.write("sent\n")
        sys.stdout.flush()
    with home.lock(_WAIT_S):
        if not (plan := make_plan(home, [Path(corpus)])).nothing_to_do:
            run_without_dagster(home, plan)
    send_unwritten(home.path)
    sys.stdout.write("built\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
