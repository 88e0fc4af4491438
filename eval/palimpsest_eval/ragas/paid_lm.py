"""A language model behind a ledger and a budget: no answer is paid twice, no call is made that may pass the limit."""

import threading
from collections.abc import Callable

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.lm.budget import Budget, highest_cost
from palimpsest.relations.classify.lm.ledger import Ledger, LmAnswer
from palimpsest.relations.classify.lm.lm_client import ChatMessage, LmClient, LmUnavailable
from palimpsest.relations.classify.lm.lm_settings import LmSettings

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
        self._settings, self._ledger, self._on_answer = settings, ledger, on_answer
        self._budget = Budget(max_cost)
        self._client = LmClient(settings)
        self._lock = threading.Lock()
        self._failures = 0
        self.calls = self.known = self.tokens_in = self.tokens_out = 0

    @property
    def cost(self) -> float:
        """What the calls so far cost."""
        return self._budget.spent

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
        if self._failures >= _MAX_FAILURES:
            raise LmUnavailable("server down")
        max_cost = highest_cost(self._settings, len(prompt))
        if not self._budget.reserve(max_cost):
            raise BudgetSpent
        answer: LmAnswer | None = None
        try:
            answer = self._client.complete([ChatMessage("user", prompt)])
            self._ledger.put(key, query_id, "", "ragas", self._settings.model, answer)
        finally:
            self._budget.settle(max_cost, answer.cost if answer is not None else 0.0)
            with self._lock:
                self._failures = self._failures + 1 if answer is None else 0
                if answer is not None:
                    self.calls += 1
                    self.tokens_in += answer.tokens_in
                    self.tokens_out += answer.tokens_out
        return answer.text
