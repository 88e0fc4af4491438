"""Endpoints for those who run the service: is it alive, can it answer, its figures."""

from fastapi import Request
from fastapi.responses import PlainTextResponse

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, json_value
from palimpsest.serve.answers import Health, Ready
from palimpsest.serve.problems import Problem
from palimpsest.serve.scheduled_builds import ScheduledBuilds
from palimpsest.serve.state import JsonRouter, SharedService

router = JsonRouter(tags=["system"])


@router.get("/health", summary="Is the process alive?", response_model=Health)
async def health(request: Request) -> JsonObject:  # in the event loop: it waits for no thread
    """Returns that it is, and how its builds went: a failed one is no reason to start the process again."""
    builds: ScheduledBuilds = request.app.state.builds
    return {"status": "ok", "builds": json_value(builds.status())}


@router.get("/ready", summary="Can it answer?", response_model=Ready)
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
