"""A home beside another, in which something is tried: what is decided or built there changes nothing in the other."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from palimpsest.core.files import FORMAT_FILE, POINTER
from palimpsest.store.builds import published
from palimpsest.store.home import SOURCES_FILE, TRIAL_FOLDER, Home

_COPIED = (SOURCES_FILE, FORMAT_FILE, POINTER, "decisions.jsonl", "embedder.json", "consolidation/proposals.jsonl")


@contextmanager
def trial_home(home: Home) -> Iterator[Home]:
    """Makes a home with the published build, log, decisions and proposals of another, and removes it afterwards.

    Builds of it are staged there. Vectors and answers of a language model are those of the other home: what a trial
    embeds or pays for is not paid again. What a process that was killed left goes with the next build or delete.

    Yields:
        The trial home.
    """
    folder = home.path / TRIAL_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    build = published(home)
    try:
        for name in ("builds", "consolidation"):
            (folder / name).mkdir(mode=0o700, parents=True)
        for name in _COPIED:
            if (home.path / name).is_file():
                shutil.copy(home.path / name, folder / name)
        if home.sources:
            Home(folder).write_sources(home.sources)  # those inside the home are listed relative to it
        (folder / "log").symlink_to(home.log.absolute())
        (folder / home.lm_ledger.name).symlink_to(home.lm_ledger.absolute())
        if build is not None:
            (folder / "builds" / build.build_id).symlink_to(build.path.absolute())
        yield Home(folder, home.embeddings, home.embedder, home.inbox, home.web)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
