"""A limit on what calls of a language model may cost, kept by threads that share it."""

import threading

from palimpsest.relations.classify.lm.lm_settings import LmSettings

_MIN_CHARACTERS_A_TOKEN = 3  # so that a call's highest cost is known before it is made


def highest_cost(settings: LmSettings, characters: int, fixed_tokens: int = 0) -> float:
    """Returns the most that a call can cost whose prompt has so many characters, besides a fixed number of tokens."""
    return settings.cost(fixed_tokens + characters // _MIN_CHARACTERS_A_TOKEN + 1, settings.max_tokens)


class Budget:
    """What was spent, and what calls in progress may still cost. Their sum never passes the limit.

    Args:
        limit: None for none.

    Attributes:
        spent: by the calls that ended.
    """

    def __init__(self, limit: float | None):
        self.limit, self.spent = limit, 0.0
        self._reserved = 0.0
        self._lock = threading.Lock()

    def reserve(self, cost: float) -> bool:
        """Reserves the highest cost of a call; returns whether the budget covers it."""
        with self._lock:
            if self.limit is not None and self.spent + self._reserved + cost > self.limit:
                return False
            self._reserved += cost
            return True

    def settle(self, reserved: float, spent: float) -> None:
        """Replaces what a call reserved by what it cost."""
        with self._lock:
            self._reserved -= reserved
            self.spent += spent
