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
from mcp_types import CallToolResult
from pydantic import Field

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.files import counted
from palimpsest.core.ids import SCOPE, JsonObject
from palimpsest.query.request.types import one_line
from palimpsest.serve.answers import ReceivedOperation
from palimpsest.serve.guard import Identity
from palimpsest.serve.mcp_answers import (
    NUMBERS,
    CollectionFigures,
    Cursors,
    Documents,
    Item,
    PageRead,
    SiteStructure,
    answer,
    fitting,
    page,
)
from palimpsest.serve.mcp_tools import Arguments, Into, Paged, Tools
from palimpsest.serve.memories_routes import SentMemory, begin_delete, receive_file
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.operations import DocumentName
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.sources.crawl.analyze_site import PathGroup, analyze_site
from palimpsest.sources.crawl.ingest_web import WebOwner, ingest_url
from palimpsest.store.builds import published

T = TypeVar("T")


class IngestFile(Into):
    """Arguments of `ingest_file`."""

    name: str = Field(description="With the ending of its type, such as notes.md")
    content_base64: str = Field(description="Its bytes in base64")


class IngestUrl(Into):
    """Arguments of `ingest_url`."""

    url: str = Field(description="With http:// or https://")


class ListDocuments(Paged):
    """Arguments of `list_documents`."""

    collection: str | None = Field(None, description="Only this collection")


class CollectionInfo(Arguments):
    """Arguments of `collection_info`."""

    collection: str = Field(description="Name of the collection")


class DeleteDocument(CollectionInfo):
    """Arguments of `delete_document`."""

    uri: str = Field(description="As list_documents has it")


class AnalyzeWebsite(Arguments):
    """Arguments of `analyze_website`."""

    url: str = Field(description="With http:// or https://")
    limit: int = Field(150, description="Pages to look at, 1 to 1000", ge=1, le=1000)


_WEB_S = 20.0
"""Of a page or a site: below the time that a request may take."""
_PUBLIC = AddressPolicy()
"""Callers read the public web alone: the private hosts that the operator names are for the operator's crawls."""
_MAX_WEB_CALLS = 4
_REFUSED = "the page cannot be read: it is not there, is no page, or robots.txt or the address is against it"


_WEB_CALLS = BoundedSemaphore(_MAX_WEB_CALLS)
_LOG = logging.getLogger("palimpsest.serve")


class RareTools(Tools):
    """All tools: these besides the ten."""

    def ingest_file(self, me: Identity, q: IngestFile) -> Annotated[CallToolResult, ReceivedOperation]:
        """Sends a file (PDF, Word, Markdown, mail, ...) by name and content. get_operation says when it is built."""  # noqa: DOC501 (the docstring is for agents)
        try:
            data = base64.b64decode(q.content_base64, validate=True)
        except (ValueError, binascii.Error):
            raise ToolError("content_base64: not base64") from None
        sent = SentMemory(text=q.name, collection=q.collection, project=q.project)
        return answer(receive_file(self.service, me, sent, q.name, data, None))

    def ingest_url(self, me: Identity, q: IngestUrl) -> Annotated[CallToolResult, PageRead]:
        """Reads one page of the web; robots.txt is honored. The next build forms its memories."""  # noqa: DOC501
        if q.project and q.project not in me.projects:
            raise Problem(403, "the token does not name this project")
        own = WebOwner(collection=q.collection, user=me.user, project=q.project)
        done = self._of_web(lambda: ingest_url(self.service.home, q.url, policy=_PUBLIC, max_seconds=_WEB_S, **own))
        return answer({"stored": len(done.stored), "unchanged": done.counts["unchanged"]})

    def list_documents(self, view: CallerView, q: ListDocuments) -> Annotated[CallToolResult, Documents]:
        """Lists the documents of the user's memories, with how many memories each has."""
        found: list[Item] = []
        for name in sorted({s.collection for s in view.own_scopes(q.collection)}):
            rows = self._memories(view, name).group_by("uri").agg(pl.col("title").first(), memories=pl.len())
            found += [_document(name, **row) for row in rows.sort("uri").to_dicts()]
        shown, after = Cursors(NUMBERS, view.reader.build_id, q.collection).page(found, q.cursor, q.limit)
        return page({"documents": shown}, after, "There are no documents here.")

    def delete_document(self, view: CallerView, q: DeleteDocument) -> Annotated[CallToolResult, ReceivedOperation]:
        """Deletes one document of the user for good, with all memories of it. get_operation has the proof."""  # noqa: DOC501
        if self._memories(view, q.collection).filter(pl.col("uri") == q.uri).is_empty():
            raise NotFound
        return answer(begin_delete(self.service, view.identity, (), DocumentName(q.collection, q.uri)))

    def collection_info(self, view: CallerView, q: CollectionInfo) -> Annotated[CallToolResult, CollectionFigures]:
        """Says how many memories the user has in a collection, by type, and of how many documents."""  # noqa: DOC501
        if not view.own_scopes(q.collection):
            raise NotFound
        found = self._memories(view, q.collection)
        figures = {"memories": found.height, "documents": found["uri"].n_unique()}
        types = dict(sorted(Counter(found["type"].to_list()).items()))
        return answer({"collection": q.collection, **figures, "types": {**types}})

    def analyze_website(self, me: Identity, q: AnalyzeWebsite) -> Annotated[CallToolResult, SiteStructure]:
        """Says how a site is structured: its pages grouped by path, and what to read. Stores nothing."""
        found = self._of_web(lambda: analyze_site(q.url, seconds=_WEB_S, max_urls=q.limit, policy=_PUBLIC))
        head = f"{found.listed} pages, by {found.source}. {' '.join(found.advice)}"
        groups = fitting([_group(g) for g in found.groups], beside=len(head) + len(found.url))
        known: JsonObject = {"url": found.url, "listed": found.listed, "source": found.source}
        return page({"groups": groups}, None, head, head, advice=[*found.advice], **known)

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


def _document(collection: str, uri: str, title: str | None, memories: int) -> Item:
    named = f" ({one_line(title)})" if title else ""
    line = f"{collection}: {one_line(uri)}{named}, {counted(memories, 'memory')}"
    form: JsonObject = {"collection": collection, "uri": uri, "memories": memories}
    return Item({**form, "title": title} if title else form, line)


def _group(group: PathGroup) -> Item:
    example = group.examples[0]
    line = f"{one_line(group.pattern)}: {counted(group.count, 'page')}, such as {one_line(example)}"
    return Item({"pattern": group.pattern, "count": group.count, "example": example}, line)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
