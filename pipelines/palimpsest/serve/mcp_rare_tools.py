"""MCP tools that few agents need, behind a setting: files, pages of the web, documents and collections."""

import base64
import binascii
import datetime as dt
import logging
from collections import Counter
from collections.abc import Callable
from threading import BoundedSemaphore
from typing import Annotated, TypeVar

import polars as pl
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import SCOPE
from palimpsest.serve.guard import Identity
from palimpsest.serve.mcp_answers import (
    CollectionFigures,
    Cursors,
    Document,
    Documents,
    Operation,
    PageRead,
    PathGroupShown,
    SiteStructure,
    fitting,
)
from palimpsest.serve.mcp_tools import Caller, Collection, Cursor, Limit, check_project
from palimpsest.serve.memories_routes import SentMemory, begin_delete, receive_file
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.operations import DocumentName
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.sources.crawl.analyze_site import analyze_site
from palimpsest.sources.crawl.ingest_web import WebOwner, ingest_url
from palimpsest.store.builds import published

Into = Annotated[str | None, Field(description="Where to. [default: where the user's memories are]")]
OfProject = Annotated[str | None, Field(description="Its project. [default: the general memory]")]
Named = Annotated[str, Field(description="Name of the collection.")]
Url = Annotated[str, Field(description="With http:// or https://.")]
T = TypeVar("T")
_WEB_S = 20.0
"""Of a page or a site: below the time that a request may take."""
_PUBLIC = AddressPolicy()
"""Callers read the public web alone: the private hosts that the operator names are for the operator's crawls."""
_MAX_WEB_CALLS = 4
_REFUSED = "the page cannot be read: it is not there, is no page, or robots.txt or the address is against it"


_WEB_CALLS = BoundedSemaphore(_MAX_WEB_CALLS)
_LOG = logging.getLogger("palimpsest.serve")


class RareTools(Caller):
    """What these tools do."""

    def ingest_file(
        self,
        name: Annotated[str, Field(description="With the ending of its type, such as notes.md.")],
        content_base64: Annotated[str, Field(description="Its bytes in base64.")],
        collection: Into = None,
        project: OfProject = None,
    ) -> Operation:
        """Sends a file (PDF, Word, Markdown, mail, ...) by name and content. get_operation says when it is built."""  # noqa: DOC501 (the docstring is for agents)
        try:
            data = base64.b64decode(content_base64, validate=True)
        except (ValueError, binascii.Error):
            raise ToolError("content_base64: not base64") from None
        sent = SentMemory(text=name, collection=collection, project=project)
        return self.may_without_view(
            "write", lambda me: Operation.of(receive_file(self.service, me, sent, name, data, None))
        )

    def ingest_url(self, url: Url, collection: Into = None, project: OfProject = None) -> PageRead:
        """Reads one page of the web; robots.txt is honored. The next build forms its memories."""

        def read(me: Identity) -> PageRead:
            check_project(me, project)
            own = WebOwner(collection=collection, user=me.user, project=project)
            done = self._of_web(lambda: ingest_url(self.service.home, url, policy=_PUBLIC, max_seconds=_WEB_S, **own))
            return PageRead(stored=len(done.stored), unchanged=done.counts["unchanged"])

        return self.may_without_view("write", read)

    def list_documents(self, collection: Collection = None, limit: Limit = 50, cursor: Cursor = None) -> Documents:
        """Lists the documents of the user's memories, with how many memories each has."""

        def list_all(view: CallerView) -> Documents:
            cursors = Cursors(view.reader.build_id, {"collection": collection})
            start = cursors.start(cursor)
            found: list[Document] = []
            for name in sorted({s.collection for s in view.own_scopes(collection)}):
                rows = self._memories(view, name).group_by("uri").agg(pl.col("title").first(), memories=pl.len())
                found += [Document(collection=name, **row) for row in rows.sort("uri").to_dicts()]
            page, after = cursors.page(found, start, limit)
            return Documents(documents=page, next_cursor=after)

        return self.may("read", list_all)

    def delete_document(
        self, uri: Annotated[str, Field(description="As list_documents has it.")], collection: Named
    ) -> Operation:
        """Deletes one document of the user for good, with all memories of it. get_operation has the proof."""

        def begin(view: CallerView) -> Operation:
            if self._memories(view, collection).filter(pl.col("uri") == uri).is_empty():
                raise NotFound
            return Operation.of(begin_delete(self.service, view.identity, (), DocumentName(collection, uri)))

        return self.may("delete", begin)

    def collection_info(self, collection: Named) -> CollectionFigures:
        """Says how many memories the user has in a collection, by type, and of how many documents."""

        def counted(view: CallerView) -> CollectionFigures:
            if not view.own_scopes(collection):
                raise NotFound
            found = self._memories(view, collection)
            types = dict(sorted(Counter(found["type"].to_list()).items()))
            documents = found["uri"].n_unique()
            return CollectionFigures(collection=collection, memories=found.height, documents=documents, types=types)

        return self.may("read", counted)

    def analyze_website(
        self, url: Url, limit: Annotated[int, Field(description="Pages to look at.", ge=1, le=1000)] = 150
    ) -> SiteStructure:
        """Says how a site is structured: its pages grouped by path, and what to read. Stores nothing."""

        def read(_: Identity) -> SiteStructure:
            found = self._of_web(lambda: analyze_site(url, seconds=_WEB_S, max_urls=limit, policy=_PUBLIC))
            shown = [PathGroupShown(pattern=g.pattern, count=g.count, example=g.examples[0]) for g in found.groups]
            shape = SiteStructure(
                url=found.url, listed=found.listed, source=found.source, advice=list(found.advice), groups=[]
            )
            return shape.model_copy(update={"groups": fitting(shown, shape)})

        return self.may_without_view("read", read)

    def _memories(self, view: CallerView, collection: str) -> pl.DataFrame:
        """Returns (memory_id, type, uri, title) of the caller's own memories that may be shown."""
        build = published(self.service.home)
        own = [(s.collection, s.user_id, s.project_id) for s in view.own_scopes(collection)]
        scopes = pl.DataFrame(own, schema=dict.fromkeys(SCOPE, pl.String), orient="row")
        if build is None or scopes.is_empty() or collection not in build.collections:
            return pl.DataFrame(schema=dict.fromkeys(("memory_id", "type", "uri", "title"), pl.String))
        is_kept = (pl.col("retention_until") > _now()).fill_null(True)
        is_shown = pl.col("user_visible").fill_null(True) & ~pl.col("pii").fill_null(False) & is_kept
        documents = build.table(collection, "documents").select("document_id", "uri", document_title="title")
        memories = build.table(collection, "memories").filter(is_shown).join(scopes, on=SCOPE, how="semi")
        found = memories.join(documents, on="document_id")
        return found.select("memory_id", "type", "uri", title="document_title")

    @staticmethod
    def _of_web(read: Callable[[], T]) -> T:
        """Reads something of the web.

        Raises:
            ArgumentError: an argument cannot be used.
            Problem: it cannot be read.
        """
        if not _WEB_CALLS.acquire(blocking=False):
            raise Problem(503, "too many pages are being read; try again")
        try:
            return read()
        except ArgumentError:
            raise
        except PalimpsestError as e:
            _LOG.info("a page cannot be read", exc_info=e)  # its text may say what others have
            raise Problem(422, _REFUSED) from None
        finally:
            _WEB_CALLS.release()


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
