"""Keeps the copy of a home on object storage up to date while it is served."""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from anyio.to_thread import run_sync

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import send_unwritten
from palimpsest.store.remote.remote_home import refresh
from palimpsest.store.remote.working_copy import WorkingCopy, working_copy

SYNC_S = 2.0
"""Seconds between two looks at the store, each of which is one small read."""
_LOG = logging.getLogger(__name__)


@dataclass
class StoreSync:
    """Reads what other machines published, and writes what was sent to the inbox here."""

    home: Path

    async def run(self) -> None:
        """Looks again and again, until it is cancelled; of a home that is a folder there is nothing to do."""
        if (copy := working_copy(self.home)) is None:
            return
        while True:
            try:
                await run_sync(self.look, copy)
            except PalimpsestError as e:  # the next look may reach the store, or find it free
                _LOG.warning("object storage", exc_info=e)
            except Exception as e:  # a full disk, say: without the next look nothing that is received is ever sent
                _LOG.error("object storage", exc_info=e)
            await asyncio.sleep(SYNC_S)

    def look(self, copy: WorkingCopy) -> None:
        """Brings the copy up to date, and writes what is new in it."""
        refresh(copy)
        send_unwritten(self.home, wait_s=0)
