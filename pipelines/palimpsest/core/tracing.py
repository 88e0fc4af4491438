"""OpenTelemetry spans, where OTEL_EXPORTER_OTLP_ENDPOINT names a collector; else they cost nothing.

The SDK reads its other settings itself: OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES. A
collector that does not answer delays no build: spans are sent by a thread of their own, and lost after its time limit.
"""

import atexit
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from palimpsest.core.progress import say

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_FLUSH_MS = 5_000


@contextmanager
def span(name: str, fields: Mapping[str, int | float | str]) -> Iterator[None]:
    """Makes a span of the block, a child of the span around it; an error is recorded by its type and goes on.

    Args:
        name: of the span.
        fields: become its attributes at the end; the block may add to them.
    """
    tracer = _tracer() if os.environ.get(ENDPOINT, "").strip() else None
    if tracer is None:
        yield
        return
    from opentelemetry.trace import StatusCode

    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as current:
        try:
            yield
        except BaseException as e:
            current.set_status(StatusCode.ERROR, type(e).__name__)  # its words may quote sources
            raise
        finally:
            current.set_attributes({f"palimpsest.{key}": value for key, value in fields.items()})


@cache
def _tracer() -> Any:
    """Returns the tracer of this process; None, with a warning, where the extra is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        say(f"warning: {ENDPOINT} is set, and no span is sent: pip install 'palimpsest-memory[telemetry]'")
        return None
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # a collector that is down is no news
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "palimpsest"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_FLUSH_MS / 1000)))
    atexit.register(provider.shutdown)
    return provider.get_tracer("palimpsest")
