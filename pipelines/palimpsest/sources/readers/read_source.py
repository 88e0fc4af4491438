"""Reads one file into documents; what goes wrong becomes a reason that a person can act on."""

from pathlib import Path

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction, Scope, Source
from palimpsest.sources.readers.common.document_head import add_document_head
from palimpsest.sources.readers.common.document_time import add_document_time, find_stated_time
from palimpsest.sources.readers.common.front_matter import (
    SIDECAR_SUFFIX,
    apply_sidecar,
    find_sidecar,
    parse_scope,
    read_sidecar,
)
from palimpsest.sources.readers.conversations.slack import find_users_file, read_user_names
from palimpsest.sources.readers.detect_format import detect_format
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder

_NO_SCOPE = Scope()


def read_source(
    path: Path,
    uri: str,
    limits: Limits | None = None,
    dates: DateOrder | None = None,
    defaults: Scope = _NO_SCOPE,
) -> Extraction:
    """Returns the documents of one file, with what its sidecar states, and the problems of unreadable parts.

    Args:
        path: the file; only its bytes and its suffix count, never its times or its folder.
        uri: its path relative to the collection, which the documents carry.
        limits: the defaults when null.
        dates: which part comes first in dates of three numbers.
        defaults: the user and project of texts that state none.

    Raises:
        Rejected: nothing in it can be read; the message says why and what to do.
        PalimpsestError: the installed readers contradict each other, see `registry`. No other exception escapes.
    """
    limits = limits or Limits()
    if path.name.endswith(SIDECAR_SUFFIX):
        owner = path.name.removesuffix(SIDECAR_SUFFIX)
        raise Rejected(f"a sidecar without its source: no file {owner!r} is next to it; rename or remove it")
    sidecar = find_sidecar(path)
    fields = read_sidecar(sidecar, limits) if sidecar else None
    users = find_users_file(path, uri)
    source = Source(
        uri=uri,
        suffix=path.suffix.lower(),
        data=_read_file(path, limits),
        dates=dates,
        fields=fields,
        names=read_user_names(users) if users else None,
        defaults=parse_scope(fields or {})[0].or_else(defaults),
    )
    return read_bytes(source, limits)


def read_bytes(source: Source, limits: Limits) -> Extraction:
    """Returns the documents of a source in memory, see `read_source`."""
    found = detect_format(source, limits)
    try:
        return _add_sidecar_and_dates(found.read(source, limits), source)
    except Rejected:
        raise
    except MemoryError as e:
        raise Rejected(f"too large: reading the {found.name} needs more memory than a reader may use; split it") from e
    except RecursionError:
        raise Rejected(f"nested too deeply: this {found.name} is no document; simplify it or leave it out") from None
    except Exception as e:  # libraries raise errors of any type on broken files; one source must not stop the rest
        raise Rejected(f"corrupt {found.name}: {type(e).__name__} while reading; export it again") from e


def _add_sidecar_and_dates(extraction: Extraction, source: Source) -> Extraction:
    """Adds what the text and the sidecar state, and the date of the name or title to documents that state none."""
    if source.fields:
        extraction = apply_sidecar(extraction, source.fields, source.uri, source.dates)
    is_dated_by_sidecar = find_stated_time(source.fields or {}, source.dates) is not None
    documents, problems = [], dict.fromkeys(extraction.problems)
    for document in extraction.documents:
        if document.uri == source.uri:  # attachments were dated when they were read
            document, is_dated, unclear = add_document_head(document, source.dates, is_dated_by_sidecar)
            document, more = add_document_time(document, source.dates, is_dated)
            problems |= dict.fromkeys(more if document.source_time else [*unclear, *more])
        documents.append(document)
    return Extraction(tuple(documents), tuple(problems), extraction.left_out)


def _read_file(path: Path, limits: Limits) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device would block or never end
            raise Rejected("not a regular file" if path.exists() else "missing: no such file, or a broken link")
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except OSError as e:
        raise Rejected(f"cannot be opened: {e.strerror or type(e).__name__}; check its permissions") from None
    if len(data) > limits.max_bytes:
        raise Rejected(
            f"too large: {path.stat().st_size:,} bytes, the limit is {limits.max_bytes:,}; split it, "
            "or raise limits.max_bytes in collection.yaml"
        )
    if not data:
        raise Rejected("empty: the file holds no bytes")
    return data
