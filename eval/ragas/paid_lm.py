"""A language model behind a ledger and a budget: no answer is paid twice, no call is made that may pass the limit."""

import threading
from collections.abc import Callable

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.lm.ledger import Ledger, LmAnswer
from palimpsest.relations.classify.lm.lm_client import ChatMessage, LmClient, LmUnavailable
from palimpsest.relations.classify.lm.lm_settings import LmSettings

_MIN_CHARACTERS_A_TOKEN = 3  # what a call may cost is known before it is made
_MAX_FAILURES = 8  # in a row: the server is down, the rest is not tried


class BudgetSpent(Exception):
    """The budget does not allow another call."""


class PaidLm:
    """The model, shared by all threads, and what its calls cost; `known` counts answers that the ledger had.

    `on_answer` receives (query_id, prompt, answer) of every answer, known ones too.
    """

    def __init__(
        self,
        settings: LmSettings,
        ledger: Ledger,
        max_cost: float | None,
        on_answer: Callable[[str, str, str], None] | None = None,
    ):
        self._settings, self._ledger, self._max_cost, self._on_answer = settings, ledger, max_cost, on_answer
        self._client = LmClient(settings)
        self._lock = threading.Lock()
        self._reserved = 0.0
        self._failures = 0
        self.calls = self.known = self.tokens_in = self.tokens_out = 0
        self.cost = 0.0

    def complete(self, prompt: str, query_id: str) -> str:
        """Returns the model's answer to a prompt, from the ledger where it was given before.

        Raises:
            BudgetSpent: the budget does not cover it.
            LmUnavailable: the server gave none.
        """
        answer = self._complete(prompt, query_id)
        if self._on_answer is not None:
            self._on_answer(query_id, prompt, answer)
        return answer

    def _complete(self, prompt: str, query_id: str) -> str:
        key = content_id("ragas", self._settings.model, prompt)
        if (known := self._ledger.get(key)) is not None:
            with self._lock:
                self.known += 1
            return known.text
        max_cost = self._settings.cost(len(prompt) // _MIN_CHARACTERS_A_TOKEN + 1, self._settings.max_tokens)
        with self._lock:
            if self._max_cost is not None and self.cost + self._reserved + max_cost > self._max_cost:
                raise BudgetSpent
            if self._failures >= _MAX_FAILURES:
                raise LmUnavailable("server down")
            self._reserved += max_cost
        answer: LmAnswer | None = None
        try:
            answer = self._client.complete([ChatMessage("user", prompt)])
            self._ledger.put(key, query_id, "", "ragas", self._settings.model, answer)
        finally:
            with self._lock:
                self._reserved -= max_cost
                self._failures = self._failures + 1 if answer is None else 0
                if answer is not None:
                    self.calls += 1
                    self.tokens_in += answer.tokens_in
                    self.tokens_out += answer.tokens_out
                    self.cost += answer.cost
        return answer.text
