"""Sends the files of a folder to the inbox, each once for each content: sent again, a folder changes nothing."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.inbox.destination import InboxOptions
from palimpsest.sources.inbox.receive import Receipt, ingest_file
from palimpsest.store.home import Home


@dataclass(frozen=True)
class FolderReceipt:
    """What the inbox received of a folder.

    Attributes:
        received: number of files that are new.
        known: number of files that had been received before.
        collections: where the memories will be; several where a file had been received before in another one.
        empty: paths of files without content, which are left out.
        failures: path and reason of each file that cannot be sent.
    """

    received: int
    known: int
    collections: tuple[str, ...]
    empty: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]

    def to_json(self) -> JsonObject:
        """Returns the JSON that `palimpsest ingest directory` prints."""
        failures = [{"path": path, "reason": why} for path, why in self.failures]
        return {
            "received": self.received,
            "known": self.known,
            "collections": list(self.collections),
            "empty": list(self.empty),
            "failures": failures,
        }


def ingest_folder(home: Home | Path | str, folder: Path, **options: Unpack[InboxOptions]) -> FolderReceipt:
    """Sends the files below a folder to the inbox of a home, sorted by path; names that begin with a dot are left out.

    Args:
        home: the home or its path.
        folder: links in it are no files of it.
        **options: see `InboxOptions`; operation ids are made from path and content.

    Raises:
        ArgumentError: there is no such folder, it has no file, or an option cannot be used.
    """
    if not folder.is_dir():
        raise ArgumentError("folder", "no such folder; name one with files", str(folder))
    receipts: list[Receipt] = []
    empty: list[str] = []
    failures: list[tuple[str, str]] = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            if path.is_symlink():
                raise ArgumentError("file", "a link; copy the file in", name)
            if not path.stat().st_size:
                empty.append(name)
                continue
            options["operation_id"] = content_id("folder", name, file_hash(path))
            receipts.append(ingest_file(home, path, **options))
        except OSError as e:
            failures.append((name, f"cannot be read: {e.strerror}"))
        except ArgumentError as e:
            if e.argument not in ("file", "text", "operation_id"):
                raise
            failures.append((name, e.problem))
    if not (receipts or empty or failures):
        raise ArgumentError("folder", "has no files", str(folder))
    received, collections = sum(r.is_new for r in receipts), sorted({r.collection for r in receipts})
    return FolderReceipt(received, len(receipts) - received, tuple(collections), tuple(empty), tuple(failures))


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))
