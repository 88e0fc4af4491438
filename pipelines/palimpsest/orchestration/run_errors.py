"""The error that a run of the command line ended with, as the command line reports it."""

import os
from typing import Any

from palimpsest.build.delete.postgres_runs import LOST_CONNECTION, no_answer
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.extras import missing_in
from palimpsest.core.faults import fault_in
from palimpsest.core.progress import say


def check_run(result: Any) -> None:
    """Raises the error that a failed run ended with.

    Raises:
        PalimpsestError: a person must fix what a stage reports.
        ComponentFailed: a stage, or the run before its first stage, failed.
    """
    if result.success:
        return
    failure = next((event for event in result.all_events if event.is_step_failure), None)
    if failure is None:
        raise ComponentFailed("the run failed before its first stage; see the Dagster UI")
    error = failure.step_failure_data.error
    while error.cause is not None:
        error = error.cause
    if os.environ.get("PALIMPSEST_DEBUG"):
        say(error.to_string())
    reported = _error_of(error.message, failure.step_key)
    raise reported


def _error_of(message: str, stage: str) -> PalimpsestError:
    """Returns the error to report for the message of a stage's exception, which begins with the exception's type."""
    first_line = message.strip().splitlines()[0]
    qualified_name, _, text = first_line.partition(": ")
    name = qualified_name.rpartition(".")[2]
    if qualified_name == ModuleNotFoundError.__name__ and (missing := missing_in(text, "build")):
        return missing
    if name == ComponentFailed.__name__:
        return ComponentFailed(text)
    if name == LOST_CONNECTION:
        return no_answer(name, "build")
    if name in _usage_errors(PalimpsestError):
        return PalimpsestError(text)
    return fault_in(message) or ComponentFailed(f"stage {stage}: {first_line}; run again")


def _usage_errors(kind: type[PalimpsestError]) -> set[str]:
    """Returns the names of the errors that are reported as they are: the family's, and those derived from it."""
    names = {kind.__name__} if kind.exit_code == PalimpsestError.exit_code else set()
    return names.union(*(_usage_errors(k) for k in kind.__subclasses__()))
