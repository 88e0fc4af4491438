"""Endpoints for those who run the service: is it alive, can it answer, its figures."""

from typing import Literal

from fastapi import Request
from fastapi.responses import PlainTextResponse
from typing_extensions import TypedDict

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.serve.problems import Problem
from palimpsest.serve.scheduled_builds import BuildsStatus, ScheduledBuilds
from palimpsest.serve.state import JsonRouter, SharedService

router = JsonRouter(tags=["system"])


class Health(TypedDict):
    """That the process is alive, and the builds that it runs."""

    status: Literal["ok"]
    builds: BuildsStatus


@router.get("/health", summary="Is the process alive?", responses={200: {"model": Health}})
async def health(request: Request) -> Health:  # in the event loop: it waits for no thread
    """Returns that it is, and how its builds went: a failed one is no reason to start the process again."""
    builds: ScheduledBuilds = request.app.state.builds
    return {"status": "ok", "builds": builds.status()}


@router.get("/ready", summary="Can it answer?")
def ready(service: SharedService) -> JsonObject:
    """Returns the build that answers; empty before the first one."""
    try:
        return {"status": "ready", "build_id": service.reader.answering_build()}
    except PalimpsestError:
        raise Problem(503, "the store cannot be opened") from None


@router.get("/metrics", summary="Figures for Prometheus", response_class=PlainTextResponse)
def metrics(service: SharedService) -> str:
    """Returns figures of the home as a whole: no name of a user, a collection or a source, no id and no text."""
    from palimpsest_eval.runs.home_metrics import metrics_text

    return metrics_text(service.home, with_names=False)
