"""Brings a home of an earlier format to this version's: every table is made again from the ingest log.

The log is the record, and it is read as every version wrote it; sources are not read and may be gone. What an earlier
version derived (tables, index, records of stages) is not translated but made again, so that an upgraded home is what
this version would have built. Readers see the earlier build until the new one is published.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from palimpsest.build.finish import finish_staged
from palimpsest.build.plan import log_context
from palimpsest.build.run_stage import run_from_record
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import FORMAT, check_format, nothing_published, read_format
from palimpsest.core.progress import say
from palimpsest.index.index_format import index_format
from palimpsest.store.builds import published, staged
from palimpsest.store.collection_config import find_collections
from palimpsest.store.home import Home


def found_format(home: Home) -> int:
    """Returns the format of a home: what it records, else that of its index; 0 where its index cannot be read.

    Raises:
        PalimpsestError: nothing is published, or a newer version wrote the home.
    """
    check_format(home.path)
    build = published(home)
    if build is None:
        raise PalimpsestError(nothing_published(home.name))
    of_index = index_format(build.index) or 0
    if of_index > FORMAT:
        raise PalimpsestError(
            f"home {home.path}: written by a newer version of Palimpsest (format {of_index}, this version knows "
            f"{FORMAT}); upgrade Palimpsest, or name another --home"
        )
    return min(of_index, read_format(home.path) or of_index)


def stage_upgrade(home: Home, corpora: list[Path] | None) -> None:
    """Makes every collection of the published build again from its log and finishes the build; publishes nothing.

    Args:
        home: the home, whose lock this process has.
        corpora: where folders of collections are now; needed alone where the home does not have their settings.

    Raises:
        PalimpsestError: a collection's folder is gone, and the home does not have its settings.
    """
    current = published(home)
    assert current is not None
    home.create()
    if corpora:
        found = find_collections(corpora)
        home.remember_sources({n: f for n, f in found.items() if n in current.collections})
    contexts = {name: log_context(home, name) for name in current.collections}  # all are there before any is made
    shutil.rmtree(staged(home).path, ignore_errors=True)
    for name, context in contexts.items():
        say(f"collection {name}")
        run_from_record(context)
    manifest = finish_staged(home)
    # No fingerprints: readers may read sources differently by now, so the next build looks at each of them.
    staged(home).write_manifest(replace(manifest, fingerprints={}))
