"""What a home on object storage needs of a store, and the stores that obstore reaches: S3, Google Cloud, Azure.

Nothing relies on rename, hard links or locks of the store: objects are written once, and one pointer is moved by a
conditional write.
"""

import datetime as dt
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol
from urllib.parse import urlsplit

from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig


# The files of a home at one moment: for each path the object with its content. A tree is an object itself.

FORMAT = 1
OBJECTS = "objects"
OTHER_CONTENT = "not what Palimpsest wrote; restore that object"
_LOCAL = ("dagster", "deletions")
"""Folders that stay on the machine that wrote them: Dagster's run history, results of deletes that a service runs."""
_NEEDED = (".before-delete", ".replaced.json")
"""The only hidden names of a home that a later run needs: see `store.builds` and `store.inbox`."""

_KEY = re.compile(OBJECTS + r"/[0-9]{8,18}/[0-9a-f]{32}")
_HASH = re.compile(r"[0-9a-f]{32}")
_CONTROL = re.compile("[\0-\x1f\ud800-\udfff]")
_MAX_INT = 2**63 - 1


class Entry(NamedTuple):
    """A file: the key of its object, the `file_hash` of its content, bytes, time of change and permissions."""

    key: str
    blake2b: str
    size: int
    mtime_ns: int
    mode: int

    def has_stat(self, found: os.stat_result) -> bool:
        """Returns whether a file that has this size and time of change need not be read again."""
        return (self.size, self.mtime_ns) == (found.st_size, found.st_mtime_ns)

    def is_valid(self) -> bool:
        """Returns whether Palimpsest can have written it: its hash is the name of a file, its key that of an object."""
        return (
            _KEY.fullmatch(self.key) is not None
            and _HASH.fullmatch(self.blake2b) is not None
            and 0 <= self.size <= _MAX_INT
            and 0 <= self.mtime_ns <= _MAX_INT
            and 0 <= self.mode <= 0o777
        )


Tree = Mapping[str, Entry]
"""Entries by path, relative to the home, with slashes."""


def tree_bytes(tree: Tree) -> bytes:
    """Returns a tree as the JSON of its object."""
    files = {path: list(tree[path]) for path in sorted(tree)}
    return json.dumps({"format": FORMAT, "files": files}, separators=(",", ":"), ensure_ascii=False).encode()


def parse_tree(data: bytes, where: str) -> Tree:
    """Parses the JSON of a tree; `where` names it in errors.

    Raises:
        ComponentFailed: it is none, or a path leads out of the home.
    """
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise ComponentFailed(f"{where}: format {str(raw['format'])[:20]}; a newer version wrote it, update")
        tree = {str(path): Entry(str(e[0]), str(e[1]), *map(int, e[2:])) for path, e in raw["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ComponentFailed(f"{where}: {OTHER_CONTENT}") from None
    folders = {parent for path in tree for parent in map(str, PurePosixPath(path).parents)}
    for path, entry in tree.items():
        if path in folders or not _is_path_of_home(path):
            raise ComponentFailed(f"{where}: {path[:80]!r} is no path of a home; restore that object")
        if not entry.is_valid():
            raise ComponentFailed(f"{where}: the entry of {path[:80]!r} is none; restore that object")
    return tree


def _is_path_of_home(path: str) -> bool:
    name = PurePosixPath(path)
    unsafe = name.is_absolute() or ".." in name.parts or str(name) != path or not name.parts
    return not unsafe and not _CONTROL.search(path) and "\\" not in path and is_shared(name)


def is_shared(path: PurePosixPath) -> bool:
    """Returns whether a path of a home belongs into its tree: locks, what is being written and local folders do not."""
    hidden = (part for part in path.parts if part.startswith(".") and part not in _NEEDED)
    return path.parts[0] not in _LOCAL and not any(hidden) and not path.name.endswith(("-shm", "-wal"))


def shared_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the path and the stat of each file of a home that belongs into its tree, sorted; links are none."""
    for path in sorted(folder.rglob("*")):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        if not is_shared(name):
            continue
        try:
            found = path.lstat()
        except FileNotFoundError:  # replaced or removed meanwhile
            continue
        if stat.S_ISREG(found.st_mode):
            yield str(name), found


SCHEMES = ("s3", "gs", "az")
_CHUNK_BYTES = 8 * 2**20
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_METADATA_SERVER = "169.254.169.254"
"""Where machines in a cloud get credentials: it is called only where the environment has none."""
_NO_BUCKET_CODES = ("NoSuchBucket", "ContainerNotFound")
_NO_BUCKET = "there is no such bucket; make it, or correct the URL"
_CREDENTIALS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT",),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY",),
}
_BUCKET, _SEGMENT = re.compile(r"[\w.-]+"), re.compile(r"[\w.,=+@&~!'() -]+")
"""What a URL may have: `%`, `?`, `#`, `..` and others mean something else to one library than to another."""
_HIDDEN = re.compile(r"(?<=://)[^/\s@]*@|\?[^\s,;]*")
"""Of a URL in an error: a password, or a query with a signature."""
Version = Mapping[str, str]
"""What a conditional write compares: the ETag of an object, and its version where the store has one."""


class Stored(NamedTuple):
    """The content of an object, and its version."""

    data: bytes
    version: Version


class TableStore(Protocol):
    """Objects under one prefix. Every method raises ComponentFailed where the store does not answer or refuses."""

    url: str

    def read(self, key: str) -> Stored | None:
        """Returns an object; None where there is none."""

    def download(self, key: str, path: Path, size: int) -> bool:
        """Writes an object of so many bytes to a file; returns False where there is none. One of another size fails."""

    def create(self, key: str, data: bytes) -> Version | None:
        """Writes an object where there is none of this name; returns its version, or None where there is one."""

    def replace(self, key: str, data: bytes, version: Version) -> Version | None:
        """Replaces an object that still has this version; returns its new version, or None where it has another."""

    def upload(self, key: str, file: BinaryIO) -> None:
        """Writes what is left of an open file as an object."""

    def list(self, prefix: str = "") -> Iterator[str]:
        """Lists the objects below a prefix.

        Yields:
            Their keys, in no particular order.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; one that is not there is no error."""


def is_remote(home: str) -> bool:
    """Returns whether a home is named by the URL of a bucket.

    Raises:
        PalimpsestError: it is meant as one and is none, such as s3:/bucket/prefix: a folder of that name would be made.
    """
    scheme, colon, rest = home.partition(":")
    if not colon or not rest.startswith("/") or (scheme.lower() not in SCHEMES and not rest.startswith("//")):
        return False
    if scheme not in SCHEMES or not rest.startswith("//"):
        raise PalimpsestError(
            f"--home {hidden(home)}: write a folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
        )
    return True


def open_store(url: str) -> TableStore:
    """Opens the store of a URL: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.

    Credentials, account, region and endpoint are read from the environment, as the tools of each store do.

    Raises:
        PalimpsestError: the URL names no bucket and prefix, or a variable of the store is missing or wrong.
    """
    _, prefix = bucket_and_prefix(url)
    _check_endpoint(url)
    from obstore.exceptions import BaseError

    try:
        store = _Obstore(url.rstrip("/"))
    except (BaseError, ValueError) as e:
        raise PalimpsestError(f"--home {url}: {first_line(e)}; correct the variables of the store") from None
    if store.prefix != prefix:  # a proof of a delete would search elsewhere
        raise PalimpsestError(f"--home {url}: its prefix is read as {store.prefix}; choose another prefix")
    return store


def bucket_and_prefix(url: str) -> tuple[str, str]:
    """Returns the bucket and the prefix of a URL.

    Raises:
        PalimpsestError: it names none, or has characters that stores do not read alike.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.rstrip("/").partition("/")
    if scheme not in SCHEMES or not bucket or not all(prefix.split("/")):
        raise PalimpsestError(f"--home {hidden(url)}: name a bucket and a prefix, such as s3://bucket/prefix")
    segments = prefix.split("/")
    if not _BUCKET.fullmatch(bucket) or {".", ".."} & {*segments} or not all(map(_SEGMENT.fullmatch, segments)):
        raise PalimpsestError(
            f"--home {hidden(url)}: write letters, digits and - . _ in the bucket and the prefix, such as "
            "s3://bucket/prefix; keys are read from the environment"
        )
    return bucket, prefix


def endpoint_variable(url: str) -> str | None:
    """Returns the name of the variable that says where the store of a URL is; None where none is set."""
    return next((name for name in _ENDPOINTS[url.partition("://")[0]] if os.environ.get(name)), None)


def _check_endpoint(url: str) -> None:
    """Checks the address of a store, with which obstore would end in a panic.

    Raises:
        PalimpsestError: it is none.
    """
    if (name := endpoint_variable(url)) is None:
        return
    try:
        parts = urlsplit(os.environ[name])
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment or "@" in parts.netloc or not os.environ[name].isprintable():
        raise PalimpsestError(f"{name}: write the address of the store, such as https://host:9000, without keys")


class _Obstore:
    """Implements TableStore by obstore."""

    def __init__(self, url: str):
        import obstore
        from obstore.store import from_url

        self.url, self._obstore = url, obstore
        # Plain HTTP only to an endpoint that the environment names with it: a store on this machine.
        is_plain = os.environ.get(endpoint_variable(url) or "", "").startswith("http://")
        options: ClientConfig = {"allow_http": is_plain, "connect_timeout": "5 seconds", "timeout": "120 seconds"}
        retries: RetryConfig = {"max_retries": 5, "retry_timeout": dt.timedelta(seconds=60)}
        self._store = from_url(url, client_options=options, retry_config=retries)
        self.prefix = str(getattr(self._store, "prefix", ""))

    def read(self, key: str) -> Stored | None:
        """See TableStore."""
        try:
            found = self._obstore.get(self._store, key)
            return Stored(bytes(found.bytes()), _version(found.meta))
        except (FileNotFoundError, self._obstore.exceptions.NotFoundError) as e:
            if _lacks_bucket(e):
                raise self._failed(e) from None
            return None
        except Exception as e:
            raise self._failed(e) from None

    def download(self, key: str, path: Path, size: int) -> bool:
        """See TableStore.

        Raises:
            ComponentFailed: the object has another size, or the store does not answer.
        """
        try:
            found = self._obstore.get(self._store, key)
            if found.meta["size"] != size:  # before any of it is written: it may be larger than the disk
                raise ComponentFailed(f"{self.url}/{key}: {OTHER_CONTENT}")
            with path.open("wb") as f:
                for part in found.stream(min_chunk_size=_CHUNK_BYTES):
                    f.write(part)
            return True
        except (FileNotFoundError, self._obstore.exceptions.NotFoundError):
            return False
        except Exception as e:
            raise self._failed(e) from None

    def create(self, key: str, data: bytes) -> Version | None:
        """See TableStore.

        Raises:
            ComponentFailed: there is no bucket, or the store does not answer.
        """
        errors = self._obstore.exceptions
        try:
            return self._put(key, data, "create", (errors.AlreadyExistsError, errors.PreconditionError))
        except FileNotFoundError:
            raise ComponentFailed(f"{self.url}: {_NO_BUCKET}") from None

    def replace(self, key: str, data: bytes, version: Version) -> Version | None:
        """See TableStore."""
        return self._put(key, data, dict(version), (self._obstore.exceptions.PreconditionError, FileNotFoundError))

    def _put(self, key: str, data: bytes, mode: Any, refusals: tuple[type[Exception], ...]) -> Version | None:
        try:
            return _version(self._obstore.put(self._store, key, data, mode=mode))
        except refusals:
            return None
        except FileNotFoundError:
            raise
        except Exception as e:
            raise self._failed(e) from None

    def upload(self, key: str, file: BinaryIO) -> None:
        """See TableStore."""
        try:
            self._obstore.put(self._store, key, file)
        except Exception as e:
            raise self._failed(e) from None

    def list(self, prefix: str = "") -> Iterator[str]:
        """See TableStore."""  # noqa: DOC402 (the protocol says what it yields)
        try:
            for part in self._obstore.list(self._store, prefix or None):
                yield from (str(found["path"]) for found in part)
        except Exception as e:
            raise self._failed(e) from None

    def delete(self, keys: Iterable[str]) -> None:
        """See TableStore."""
        try:
            if keys := list(keys):
                self._obstore.delete(self._store, keys)
        except FileNotFoundError:
            return
        except Exception as e:
            raise self._failed(e) from None

    def _failed(self, error: Exception) -> ComponentFailed:
        if isinstance(error, ComponentFailed):
            return error
        if _METADATA_SERVER in str(error):
            names = " and ".join(_CREDENTIALS[self.url.partition("://")[0]])
            return ComponentFailed(f"{self.url}: no credentials in the environment; set {names}")
        if _lacks_bucket(error):
            return ComponentFailed(f"{self.url}: {_NO_BUCKET}")
        return ComponentFailed(
            f"{self.url}: {first_line(error)}; check the credentials and the endpoint, and run again"
        )


def _lacks_bucket(error: Exception) -> bool:
    text = str(error)
    return any(f"<Code>{code}</Code>" in text for code in _NO_BUCKET_CODES)


def first_line(error: Exception) -> str:
    """Returns the first line of an error's text, else its type: what follows may quote headers of a request."""
    return hidden(first_line_of(error))


def hidden(text: str) -> str:
    """Returns a text without what URLs in it may have of keys: a user and password, and queries."""
    return _HIDDEN.sub("", text)


def _version(found: Mapping[str, Any]) -> Version:
    return {name: str(found[name]) for name in ("e_tag", "version") if found.get(name) is not None}
