"""Reads scopes into memory before they are searched: the first search of a scope takes several times as long.

After a start and after each publication all scopes are cold, and searches of many users at once would wait for one
another. Those who searched last come first.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock

from anyio.to_thread import run_sync

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.types import Scope
from palimpsest.serve.open_reader import REFRESH_S, PublishedState, SharedReader

MAX_WARM_S = 60.0
"""Seconds of reading after each publication; what is cold then is read by its first search."""
MAX_USERS = 1000
"""Users who are remembered as those that searched last."""
_LOG = logging.getLogger(__name__)


@dataclass
class Warming:
    """Warms the scopes of each published build in the background, one at a time.

    Attributes:
        reader: of the published build.
        searching: slots of searches; reading a scope takes one, so that it is no load beside a full house.
    """

    reader: SharedReader
    searching: BoundedSemaphore
    _users: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def searched(self, user: str) -> None:
        """Remembers that a user searched just now."""
        with self._lock:
            self._users[user] = None
            self._users.move_to_end(user)
            while len(self._users) > MAX_USERS:
                self._users.popitem(last=False)

    async def run(self) -> None:
        """Warms each build that is published, until it is cancelled."""
        done: PublishedState | None = None
        while True:
            if (state := await run_sync(self.reader.published_state)) != done and state[0]:
                await self._warm(state)
                done = state
            await asyncio.sleep(REFRESH_S)

    async def _warm(self, state: PublishedState) -> None:
        ends = time.monotonic() + MAX_WARM_S
        try:
            for scope in await run_sync(self._order):
                if time.monotonic() > ends or await run_sync(self.reader.published_state) != state:
                    return
                await asyncio.sleep(await run_sync(self._read, scope))  # requests have half of the time
        except PalimpsestError as e:  # the request that meets it answers with its message
            _LOG.warning("warming: %s", type(e).__name__)

    def _order(self) -> list[Scope]:
        """Returns the scopes of the build: those of the users who searched last, then the others in their order."""
        with self._lock:
            recent = {user: place for place, user in enumerate(reversed(self._users))}
        with self.reader.borrowed() as reader:
            return sorted(reader.scopes(), key=lambda s: (recent.get(s.user_id, len(recent)), s))

    def _read(self, scope: Scope) -> float:
        """Reads a scope and returns the seconds that this took."""
        with self.searching, self.reader.borrowed() as reader:
            started = time.perf_counter()
            reader.warm(scope)
            return time.perf_counter() - started
