"""What the assets share: the home they write, the partitions by collection, owners, how long they wait for the lock."""

from dataclasses import replace
from pathlib import Path

import dagster as dg

from palimpsest.store.home import DEFAULT_HOME, Home, home_from_environment
from palimpsest.store.remote.remote_home import refresh
from palimpsest.store.remote.working_copy import working_copy

OWNERS = ["team:palimpsest"]
LOCK_WAIT_S = 3600.0
BATCH = "palimpsest/batch"
"""Tag of all runs that one night or one change of a folder starts."""

collections = dg.DynamicPartitionsDefinition(name="collections")


class HomeResource(dg.ConfigurableResource):
    """The home that assets read and write. Empty means PALIMPSEST_HOME, else data/home.

    `max_cost` is the money that labels by an LM may cost in this run; below 0 means no limit. `allow_removals` builds
    although too many sources or memories of a collection vanished. `embedder` becomes the home's when the build is
    published; empty means that the home keeps its own.
    """

    path: str = ""
    embeddings_path: str = ""
    max_cost: float = -1.0
    allow_removals: bool = False
    embedder: str = ""

    @property
    def money(self) -> float | None:
        """What labels by an LM may cost; None means no limit."""
        return None if self.max_cost < 0 else self.max_cost

    def home(self) -> Home:
        """Returns the home, its folders made."""
        embeddings = Path(self.embeddings_path) if self.embeddings_path else None
        home = Home(Path(self.path), embeddings) if self.path else home_from_environment()
        if (copy := working_copy(home.path)) is not None:
            refresh(copy)  # what other machines published and sent
        home = replace(home, embedder=self.embedder or None)
        home.create()
        return home


def run_of(run: dg.DagsterRun) -> str:
    """Returns what the event log calls a run of Dagster: its batch, else its own id."""
    return run.tags.get(BATCH, run.run_id)


__all__ = ["DEFAULT_HOME", "HomeResource"]
