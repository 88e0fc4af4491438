"""Calls of a language model by a search: each is a DSPy program's, paid once, under a budget of the process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Generic

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm.client import BudgetSpent, Ledger, LmClient, LmUnavailable
from palimpsest.lm.engine import Found, LmProgram
from palimpsest.lm.run_program import ProgramInput, ProgramRunner
from palimpsest.lm.settings import LmSettings, budget_from_environment
from palimpsest.store.home import Home


class LmCallFailed(Exception):
    """There is no answer; the message says why."""


class LmCalls(Generic[Found]):
    """Calls of one program. Safe to share between threads.

    Args:
        program: what is called; in the ledger of a home it keeps no text.
        settings: the model.
        home: of the ledger; None keeps answers in memory, for as long as this lives.
        budget_variable: the environment variable that limits the cost of all calls of this object.

    Raises:
        PalimpsestError: the variable is no number, or the model has no price.
    """

    def __init__(self, program: LmProgram[Found], settings: LmSettings, home: Path | None, budget_variable: str):
        self._program, self._settings, self._home = program, settings, home
        self._budget, self._client = budget_from_environment(budget_variable), LmClient(program.settings(settings))
        self._budget.check_price(settings)
        self._in_memory = Ledger(None) if home is None else None
        self.name = f"lm:{settings.model}"
        """What results name the model by."""

    def ask(self, fields: Mapping[str, str]) -> Found | None:
        """Returns what the model answers to the input fields, None where that cannot be read.

        Raises:
            LmCallFailed: the budget does not cover the call, or the server gave no answer.
        """
        ledger = self._in_memory or Ledger(Home(self._home).lm_ledger)  # type: ignore[arg-type]
        try:
            runner = ProgramRunner(self._program, self._settings, ledger, self._budget, self._client)
            return runner.ask(ProgramInput("", fields, ()))[0]
        except (BudgetSpent, PalimpsestError) as e:
            raise LmCallFailed(str(e)) from None
        except LmUnavailable as e:
            raise LmCallFailed(f"the language model gave no answer ({e})") from None
        finally:
            if ledger is not self._in_memory:
                ledger.close()
