"""Calls of a language model by a search: under a budget, each paid once, with nothing but numbers in the ledger."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.lm.client import ChatMessage, Ledger, LmAnswer, LmClient, LmUnavailable
from palimpsest.lm.settings import Budget, LmSettings, highest_cost
from palimpsest.store.home import Home


def answer_field(answer: str, name: str) -> object:
    """Returns a field of the JSON object in an answer, whatever is around it; None where there is no such field."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        found: object = json.loads(answer[start : end + 1])[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found


class LmCallFailed(Exception):
    """There is no answer; the message says why."""


def budget_of(variable: str) -> float | None:
    """Returns what calls of this process may cost, from an environment variable; None for no limit.

    Raises:
        PalimpsestError: it is not a number of 0 or more.
    """
    text = os.environ.get(variable, "")
    try:
        value = float(text) if text else None
    except ValueError:
        value = -1.0
    if value is not None and not 0 <= value < float("inf"):
        raise PalimpsestError(f"{variable}: {text[:40]!r} must be a number of 0 or more; fix it")
    return value


class LmCalls:
    """Calls of one purpose.

    Args:
        purpose: part of the key of an answer.
        settings: the model.
        home: of the ledger; None stores nothing.
        budget_variable: the environment variable that limits the cost of all calls of this object.
        instructions: the first message of each call.

    Raises:
        PalimpsestError: the variable is no number.
    """

    def __init__(self, purpose: str, settings: LmSettings, home: Path | None, budget_variable: str, instructions: str):
        self._purpose, self._settings, self._home, self._variable = purpose, settings, home, budget_variable
        self._instructions, self._budget = instructions, Budget(budget_of(budget_variable))
        self._client = LmClient(settings)

    @property
    def name(self) -> str:
        """What results name the model by."""
        return f"lm:{self._settings.model}"

    def complete(self, prompt: str, reduce: Callable[[str], str]) -> str:
        """Returns the reduced answer to a prompt: the stored one, else that of a call, which is stored.

        Args:
            prompt: the request.
            reduce: returns what is stored of an answer; it leaves out all text of the prompt.

        Raises:
            LmCallFailed: the budget does not cover the call, or the server gave no answer.
        """
        key = content_id(self._purpose, *self._settings.key_parts, prompt)
        ledger = Ledger(Home(self._home).lm_ledger) if self._home is not None else None
        try:
            if ledger is None or (answer := ledger.get(key)) is None:
                paid = self._call(prompt)
                answer = replace(paid, text=reduce(paid.text))
                if ledger is not None:
                    ledger.put(key, "", "", self._purpose, self._settings.model, answer)
        finally:
            if ledger is not None:
                ledger.close()
        return answer.text

    def _call(self, prompt: str) -> LmAnswer:
        highest = highest_cost(self._settings, (self._instructions, prompt))
        if not self._budget.reserve(highest):
            raise LmCallFailed(f"its budget of {self._budget.limit:g} ({self._variable}) does not cover a call")
        spent = 0.0
        try:
            answer = self._client.complete([ChatMessage("system", self._instructions), ChatMessage("user", prompt)])
            spent = answer.cost
        except LmUnavailable as e:
            raise LmCallFailed(f"the language model gave no answer ({e})") from None
        finally:
            self._budget.settle(highest, spent)
        return answer
