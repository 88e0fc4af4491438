"""What others can write into a bucket: nothing of it changes a file outside the copy, and each is one clear error."""

import json
import os

import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.store.lease import HEAD, LEASE, take_lease
from palimpsest.store.remote_home import local_home
from palimpsest.store.table_store import open_store, parse_tree
from palimpsest.store.working_copy import STATE

_HASH = "0" * 32
_KEY = f"objects/00000001/{_HASH}"


def tree(path="decisions.jsonl", key=_KEY, blake2b=_HASH, size=1, mtime_ns=1, mode=0o600):
    return json.dumps({"format": 1, "files": {path: [key, blake2b, size, mtime_ns, mode]}}).encode()


@pytest.mark.parametrize(
    "data",
    [
        *(
            tree(path)
            for path in (
                *("", ".", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/"),
                *("a\\..\\b", "a\0b", "a\nb", "\ud800"),
                *(".lock", ".remote.json", ".remote/x", "builds/.x/y", "dagster/x", "x/lm-ledger.sqlite-shm"),
            )
        ),
        *(tree(blake2b=b) for b in ("", "../../x", "/tmp/x", "0" * 31, "0" * 32 + "\n")),
        *(
            tree(key=k)
            for k in ("published.json", "lease.json", "objects/1/x", f"objects/../{_HASH}", f"trees/00000001/{_HASH}")
        ),
        *(tree(size=s) for s in (-1, 10**30)),
        *(tree(mtime_ns=t) for t in (-1, 10**30)),
        *(tree(mode=m) for m in (0o4755, 0o2755, -1)),
        b'{"format": 1, "files": {"a": []}}',
        b'{"format": 1, "files": {"a": ["k", "h", 1e999, 1, 1]}}',
        b'{"format": 1, "files": [1]}',
        b"[" * 200_000,
        b"\xff",
    ],
    ids=lambda data: data[:60].decode("latin-1"),
)
def test_a_tree_that_palimpsest_did_not_write_is_refused(data):
    with pytest.raises(ComponentFailed, match="restore that object"):
        parse_tree(data, "s3://bucket/home/trees/x")


def test_a_file_that_is_a_folder_too_is_refused():
    entry = [_KEY, _HASH, 1, 1, 0o600]
    with pytest.raises(ComponentFailed, match="'a' is no path of a home"):
        parse_tree(json.dumps({"format": 1, "files": {"a": entry, "a/b": entry}}).encode(), "x")


def test_the_hash_of_an_entry_names_no_file_outside_the_copy(url, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    store = open_store(url)
    store.create(_KEY, b"theirs")
    store.create(f"trees/00000001/{_HASH}", tree(blake2b=os.fspath(victim)))
    store.create(HEAD, json.dumps({"tree": f"trees/00000001/{_HASH}", "fence": 1}).encode())
    with pytest.raises(ComponentFailed, match="restore that object"):
        local_home(url)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("key", ["../other/x", "objects/00000001/x", 7, ["x"]])
def test_a_pointer_that_names_no_tree_is_refused(key, url):
    open_store(url).create(HEAD, json.dumps({"tree": key, "fence": 1}).encode())
    with pytest.raises(ComponentFailed, match=r"published\.json: not what Palimpsest wrote"):
        local_home(url)


@pytest.mark.parametrize("expires", ['"soon"', "[]", "NaN", "Infinity", "null"])
def test_a_lease_that_palimpsest_did_not_write_is_refused(expires, url):
    store = open_store(url)
    store.create(LEASE, f'{{"owner": "x", "fence": 1, "expires": {expires}}}'.encode())
    with pytest.raises(ComponentFailed, match=r"lease\.json: not what Palimpsest wrote"):
        take_lease(store)


def test_the_copy_is_private(url):
    copy = local_home(url)
    assert copy.stat().st_mode & 0o077 == 0 and (copy / STATE).is_file()
