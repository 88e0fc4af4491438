"""Reads pages in a worker process, so that none can hang, end or fill the process that crawls."""

import base64
from types import TracebackType
from typing import Any, cast

from palimpsest.core.errors import Rejected
from palimpsest.sources.crawl.read_page import MAX_HTML_BYTES, PageFacts
from palimpsest.sources.workers.worker_process import WorkerProcess
from palimpsest.store.limits import Limits

MAX_SECONDS = 20.0
"""Of processor time for one page, and four times that by the clock, where limits.max_seconds is not lower."""


class PageReader:
    """Reads pages one after the other; a context manager. Its process is started for the first page."""

    def __init__(self, limits: Limits) -> None:
        """Prepares it; `limits` are those of the collection."""
        seconds = min(limits.max_seconds, MAX_SECONDS)
        self._worker = WorkerProcess(
            "palimpsest.sources.crawl.page_process", limits.model_copy(update={"max_seconds": seconds})
        )

    def __enter__(self) -> "PageReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end()

    def read(self, data: bytes, url: str, robots_tag: str) -> PageFacts:
        """Returns what is read of a page of HTML; see `read_page`.

        Raises:
            Rejected: it is no page that can be read, is too large, or takes too much time or memory.
            ComponentFailed: the process cannot be started.
        """
        if len(data) > MAX_HTML_BYTES:
            raise Rejected(f"larger than {MAX_HTML_BYTES:,} bytes of HTML; it would take minutes to read")
        request = [base64.b64encode(data).decode("ascii"), url, robots_tag]
        response = cast(dict[str, Any], self._worker.request(request))
        if "reason" in response:
            raise Rejected(response["reason"])
        return PageFacts(tuple(response["links"]), response["canonical"], response["may_store"], response["text_hash"])
