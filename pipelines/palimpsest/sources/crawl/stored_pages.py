"""The pages of one collection as a crawl sees them: what is known of each, and how a new version is stored."""

import datetime as dt
import json
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Literal

from palimpsest.core.files import file_hash_of
from palimpsest.core.ids import JsonObject
from palimpsest.sources.crawl.fetch import Response
from palimpsest.sources.inbox import Destination
from palimpsest.store.decisions import Decisions, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.web_pages import (
    DIRECT,
    PageRecord,
    WebPage,
    find_page,
    page_id,
    record_crawl,
    retire_page,
    web_lock,
    web_pages,
    write_page,
    write_record,
)

Stored = Literal["new", "changed", "unchanged", "deleted"]


class StoredPages:
    """The pages of a collection; each change is written at once, under the lock of the home's pages."""

    def __init__(self, home: Home, destination: Destination, site: str, session: str) -> None:
        """Reads the records.

        Args:
            home: the home.
            destination: the collection, and the user and project of new pages.
            site: of this crawl, as records name it.
            session: id of this crawl.

        Raises:
            DamagedFile: a record is damaged.
        """
        self._home, self._destination, self._site, self._session = home, destination, site, session
        self._collection = destination.config.name
        pages = list(web_pages(home.web, self._collection))
        self._by_uri = {page.record.uri: page for page in pages}
        self._by_text = {self._text_key(p.record): p.record.uri for p in reversed(pages) if p.record.text_hash}
        self._decisions = Decisions()
        self._decisions_state: tuple[int, int] | None = None

    def known(self, url: str) -> WebPage | None:
        """Returns the page of a URL; None where the collection has none."""
        return self._by_uri.get(url)

    def is_foreign(self, record: PageRecord) -> bool:
        """Returns whether a page belongs to another user or project than this crawl stores for."""
        return (record.user_id, record.project_id) != (self._destination.user_id, self._destination.project_id)

    def is_deleted(self, uri: str) -> bool:
        """Returns whether a page was deleted from the home, or a part of it, so that it is not stored again."""
        page = self._by_uri.get(uri)
        return (page is not None and page.record.erased == "memory") or self._is_hidden(uri)

    def validators(self, page: WebPage | None) -> dict[str, str]:
        """Returns the headers of a conditional request; none where the page has to be read whole."""
        if page is None or self.is_deleted(page.record.uri):
            return {}
        if not page.path.is_file() and page.record.erased != "expired":
            return {}
        stated = {"If-None-Match": page.record.etag, "If-Modified-Since": page.record.last_modified}
        return {name: value for name, value in stated.items() if value}

    def duplicate_of(self, uri: str, text_hash: str) -> str | None:
        """Returns the uri of another page of the same user and project with the same text."""
        owner = (self._destination.user_id, self._destination.project_id, text_hash)
        other = self._by_text.get(owner) if text_hash else None
        if other is None or other == uri or self._by_uri[other].record.text_hash != text_hash:
            return None
        return other

    def store(self, uri: str, response: Response, body: bytes, suffix: str, text_hash: str) -> Stored:
        """Stores a page where it is new or changed.

        Args:
            uri: its canonical URL.
            response: of the server.
            body: its bytes.
            suffix: by which readers know what they are.
            text_hash: of its main text, or of its bytes.

        Raises:
            ComponentFailed: another process writes the pages.
        """
        before = self._by_uri.get(uri)
        body_hash = file_hash_of(body)
        is_same = before is not None and text_hash == before.record.text_hash
        if before is not None and is_same and (before.path.is_file() or before.record.erased):
            if before.record.body_hash == body_hash:
                self._update(before, response)
            else:  # the links around the text may be others: a request with new validators would hide them
                self.reach(before)
            return "unchanged"
        record = self._record(uri, response, body_hash, f"{page_id(uri)}-{body_hash[:16]}{suffix}", text_hash)
        if before is not None:
            record = replace(record, sites=tuple(sorted({*before.record.sites, self._site})))
        with web_lock(self._home.web):
            if self._was_deleted_meanwhile(uri):
                return "deleted"
            write_page(self._home.web, self._collection, record, body, _sidecar(record))
        self._remember(record)
        return "new" if before is None else "changed"

    def reach(self, page: WebPage) -> None:
        """Notes that this crawl reached a page that did not change."""
        if self._site not in page.record.sites:
            self._rewrite(replace(page.record, sites=tuple(sorted({*page.record.sites, self._site}))))

    def retire(self, uri: str) -> None:
        """Retires a page that the server says is gone."""
        with web_lock(self._home.web):
            retire_page(self._home.web, self._collection, uri)
        page = self._by_uri.pop(uri)
        if self._by_text.get(self._text_key(page.record)) == uri:
            del self._by_text[self._text_key(page.record)]

    def unreached(self, reached: Set[str]) -> list[str]:
        """Returns the pages of this site that are none of those reached, sorted; a page alone is no site."""
        if self._site == DIRECT:
            return []
        return [
            uri
            for uri, page in sorted(self._by_uri.items())
            if self._site in page.record.sites and uri not in reached and not self.is_foreign(page.record)
        ]

    def retire_unreached(self, reached: Set[str]) -> int:
        """Retires the pages of this site that a complete crawl did not reach, unless another site has them too."""
        retired = 0
        for uri in self.unreached(reached):
            page = self._by_uri[uri]
            if rest := tuple(s for s in page.record.sites if s != self._site):
                self._rewrite(replace(page.record, sites=rest))
            else:
                self.retire(uri)
                retired += 1
        return retired

    def finish(self) -> None:
        """Records that the site was crawled."""
        if self._site == DIRECT:
            return
        with web_lock(self._home.web):
            record_crawl(self._home.web, self._collection, self._site, _now())

    def _record(self, uri: str, response: Response, body_hash: str, file: str, text_hash: str) -> PageRecord:
        return PageRecord(
            uri=uri,
            file=file,
            body_hash=body_hash,
            text_hash=text_hash,
            user_id=self._destination.user_id,
            project_id=self._destination.project_id,
            fetched_at=_now(),
            session=self._session,
            etag=_validator(response.headers, "etag"),
            last_modified=_validator(response.headers, "last-modified"),
            sites=(self._site,),
        )

    def _update(self, page: WebPage, response: Response) -> None:
        """Keeps the new validators of a page whose bytes did not change: the next request may be answered in short."""
        etag, last_modified = (_validator(response.headers, name) for name in ("etag", "last-modified"))
        sites = tuple(sorted({*page.record.sites, self._site}))
        updated = replace(page.record, etag=etag, last_modified=last_modified, sites=sites)
        if updated != page.record:
            self._rewrite(updated)

    def _rewrite(self, record: PageRecord) -> None:
        with web_lock(self._home.web):
            if (page := find_page(self._home.web, self._collection, record.uri)) is not None:  # else deleted meanwhile
                record = replace(record, erased=page.record.erased)
                write_record(self._home.web, self._collection, record)
        self._remember(record)

    def _remember(self, record: PageRecord) -> None:
        page = WebPage(self._home.web / self._collection, record)
        self._by_uri[record.uri] = page
        if record.text_hash:
            self._by_text.setdefault(self._text_key(record), record.uri)

    def _was_deleted_meanwhile(self, uri: str) -> bool:
        """Returns whether a page, a part of it or its collection was deleted since the crawl began."""
        page = find_page(self._home.web, self._collection, uri)
        is_frozen = page is not None and page.record.erased == "memory"
        return is_frozen or self._is_hidden(uri) or self._collection not in self._home.sources

    def _is_hidden(self, uri: str) -> bool:
        decisions, names = self._read_decisions(), (self._destination.user_id, uri, None, self._destination.project_id)
        return decisions.hides_source(self._collection, uri, "") or decisions.hides_document(self._collection, *names)

    def _read_decisions(self) -> Decisions:
        """Returns what was deleted, as the file has it now."""
        try:
            status = self._home.decisions.stat()
            state = (status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            return Decisions()
        if state != self._decisions_state:
            self._decisions, self._decisions_state = read_decisions(self._home.decisions), state
        return self._decisions

    @staticmethod
    def _text_key(record: PageRecord) -> tuple[str, str | None, str]:
        return record.user_id, record.project_id, record.text_hash


def _sidecar(record: PageRecord) -> bytes:
    """Returns what readers must know of a page: whose it is, and where, when and by which crawl it was read."""
    fields: JsonObject = {
        "user_id": record.user_id,
        "url": record.uri,
        "fetched_at": record.fetched_at,
        "crawl_session": record.session,
    }
    if record.project_id is not None:
        fields["project_id"] = record.project_id
    return json.dumps(fields, ensure_ascii=False, sort_keys=True).encode()


def _validator(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name, "")
    return value if 0 < len(value) <= 500 and value.isascii() and value.isprintable() else None


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
