"""What every store must do, and the errors of stores that are not there, against a real S3 server.

PALIMPSEST_TEST_STORES names other stores for the same test: URLs of empty prefixes, such as az://container/test, with
the variables of their credentials. See docs/object-storage.md.
"""

import io
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.store.table_store import open_store
from tests.command import run

_OTHERS = os.environ.get("PALIMPSEST_TEST_STORES", "").split()
AZURE = {"ACCOUNT_NAME": "x", "ACCOUNT_KEY": "eA=="}
_LARGE = os.urandom(12 * 2**20)  # more than one part of an upload


@pytest.mark.parametrize("where", ["", *_OTHERS])
def test_a_store_creates_once_replaces_what_it_knows_lists_and_deletes(where, request, tmp_path):
    store = open_store(where or f"s3://{request.getfixturevalue('bucket')}/home")
    assert store.read("a.json") is None and not store.download("a.json", tmp_path / "file", 1)
    first = store.create("a.json", b"1")
    assert first is not None and store.create("a.json", b"2") is None
    read = store.read("a.json")
    assert read is not None and read.data == b"1"
    second = store.replace("a.json", b"3", read.version)
    assert second is not None and store.replace("a.json", b"4", first) is None
    third = store.replace("a.json", b"5", second)
    assert third is not None and store.read("a.json").data == b"5"
    store.upload("objects/large", io.BytesIO(_LARGE))
    with pytest.raises(ComponentFailed, match="objects/large: not what Palimpsest wrote"):
        store.download("objects/large", tmp_path / "file", len(_LARGE) - 1)
    assert not (tmp_path / "file").exists()
    assert store.download("objects/large", tmp_path / "file", len(_LARGE))
    assert (tmp_path / "file").read_bytes() == _LARGE
    assert (sorted(store.list()), list(store.list("objects"))) == (["a.json", "objects/large"], ["objects/large"])
    store.delete(["missing", "a.json", "objects/large"])
    assert list(store.list()) == [] and store.replace("a.json", b"6", third) is None


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/", "gs://", "az:///home", "gs://bucket//home"])
def test_a_url_without_bucket_or_prefix_is_one_line(url):
    with pytest.raises(PalimpsestError, match="name a bucket and a prefix"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "variables", "reason"),
    [
        ("az://box/home", {}, "Account must be specified"),
        ("az://box/home", {"AZURE_STORAGE_ACCOUNT_NAME": "x", "AZURE_STORAGE_ACCOUNT_KEY": "_"}, "Invalid Access Key"),
        ("gs://box/home", {"GOOGLE_SERVICE_ACCOUNT": "/nowhere.json"}, "Unable to open service account file"),
        ("gs://box/home", {"GOOGLE_SERVICE_ACCOUNT": str(Path(__file__))}, "Unable to decode service account file"),
        ("s3://box/home", {"AWS_CONDITIONAL_PUT": "perhaps"}, "Failed to parse"),
    ],
)
def test_wrong_variables_of_a_store_are_one_line_and_exit_code_2(url, variables, reason, monkeypatch):
    for name in [n for n in os.environ if n.startswith(("AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PalimpsestError, match=f"--home {url}: .*{reason}.*; correct the variables") as raised:
        open_store(url)
    assert raised.value.exit_code == 2 and "\n" not in str(raised.value)
    done = run("query", "x", "--home", url)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "variables", "sent"),
    [
        ("az://box/home", {f"AZURE_STORAGE_{k}": v for k, v in (AZURE | {"ENDPOINT": "{}"}).items()}, "/box/home/a"),
        ("gs://box/home", {"GOOGLE_BASE_URL": "{}", "GOOGLE_SKIP_SIGNATURE": "true"}, "/box/home%2Fa"),
    ],
)
def test_the_url_names_bucket_and_prefix_at_the_endpoint_of_the_environment(
    url, variables, sent, monkeypatch, other_server
):
    address, requests = other_server
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(address))
    assert open_store(url).read("a") is None
    assert requests == [sent]


def test_a_bucket_that_is_not_there_is_one_line(s3):
    with pytest.raises(ComponentFailed, match=r"s3://no-such-bucket/home: there is no such bucket"):
        open_store("s3://no-such-bucket/home").create("a", b"1")
    for command in (("build",), ("query", "x")):
        done = run(*command, "--home", "s3://no-such-bucket/home")
        assert done.returncode == 3 and done.stderr.count("\n") == 1 and "there is no such bucket" in done.stderr


def test_plain_http_is_used_where_the_endpoint_of_that_store_is_named_with_it(monkeypatch, other_server):
    address, requests = other_server
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for name, value in (AZURE | {"USE_EMULATOR": "false"}).items():
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", address.replace("http://", "https://"))
    with pytest.raises(ComponentFailed, match=r"az://box/home: "):
        open_store("az://box/home").read("a")
    assert requests == []


@pytest.fixture
def other_server() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that has nothing, and the paths of its requests."""
    requests: list[str] = []

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path.partition("?")[0])
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


@pytest.mark.parametrize(
    "home", ["s3:/bucket/home", "S3://bucket/home", "https://bucket/home", Path("s3://bucket/home")]
)
def test_what_is_almost_a_url_makes_no_folder(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("query", "x", "--home", home)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "write a folder, s3://bucket/prefix" in done.stderr


def test_missing_credentials_name_their_variables(bucket, monkeypatch):
    def refuse(*_):
        raise obstore.exceptions.GenericError("Error performing PUT http://169.254.169.254/latest/api/token: 403")

    monkeypatch.setattr(obstore, "get", refuse)
    with pytest.raises(ComponentFailed, match=r"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY$"):
        open_store(f"s3://{bucket}/home").read("a.json")


def test_a_prefix_without_a_home_is_named_by_its_url(url):
    done = run("query", "x", "--home", url)
    assert done.returncode == 2 and f"run palimpsest build --home {url}" in done.stderr
