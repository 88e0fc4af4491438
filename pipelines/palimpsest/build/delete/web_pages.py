"""What of the pages of the web a delete names, and the removal of their files.

The files of a page go as soon as anything of it is deleted: raw bytes cannot be deleted in part. What is retained of
it is in the log, and its record says that a part was deleted, so that no crawl stores it again.
"""

from collections.abc import Set

import polars as pl

from palimpsest.build.delete.inbox import DocumentKey
from palimpsest.build.delete.target import Target
from palimpsest.core.scopes import GENERAL
from palimpsest.store.home import Home
from palimpsest.store.web_pages import WebPage, erase_bytes, remove_collection, remove_page, web_lock


def matched_page(collection: str, page: WebPage, target: Target) -> list[DocumentKey]:
    """Returns the document of a page that a target names as a whole, whether or not a build has read it."""
    if not target.covers(collection) or target.by_memory:
        return []
    record = page.record
    project_id = record.project_id or GENERAL
    row = {"uri": record.uri, "user_id": record.user_id, "session_id": None, "project_id": project_id}
    schema = dict.fromkeys(row, pl.String())
    if target.documents(pl.DataFrame([row], schema=schema)).is_empty():
        return []
    return [(collection, record.user_id, record.uri, None, project_id)]


def erase_pages(home: Home, target: Target, whole: Set[tuple[str, str]], in_part: Set[tuple[str, str]]) -> int:
    """Removes the files of pages of which something is deleted; returns how many.

    Args:
        home: the home.
        target: of the delete.
        whole: (collection, uri) of pages that are deleted.
        in_part: (collection, uri) of pages of which a part is retained.
    """
    if not home.web.is_dir():
        return 0
    removed = 0
    with web_lock(home.web):
        for collection, uri in sorted(whole):
            removed += remove_page(home.web, collection, uri)
        for collection, uri in sorted(in_part - whole):
            removed += erase_bytes(home.web, collection, uri, "expired" if target.expired_at else "memory")
        if target.whole_collection:
            removed += remove_collection(home.web, str(target.collection))
    return removed
