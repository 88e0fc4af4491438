import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.neo4j_graph.local_server import Jar, fetch_jars, locked_jars


def repository(folder: Path, *contents: bytes) -> list[Jar]:
    """A Maven repository on disk with a jar for each content."""
    jars = []
    for number, content in enumerate(contents):
        jar = Jar(f"org.made:jar{number}:1.0", hashlib.sha256(content).hexdigest(), len(content))
        (path := folder / jar.path).parent.mkdir(parents=True)
        path.write_bytes(content)
        jars.append(jar)
    return jars


@pytest.fixture
def served(tmp_path):
    """The folder of a repository that is served over HTTP, and its URL."""
    folder = tmp_path / "repository"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_maven_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.delenv("PALIMPSEST_MAVEN", raising=False)


def test_the_lock_names_each_jar_with_version_and_hash():
    jars = locked_jars()
    assert "org.neo4j.app:neo4j-server:2026.08.1" in {j.coordinates for j in jars}
    assert len({j.file for j in jars}) == len(jars) > 200
    assert all(len(j.sha256) == 64 and j.size > 0 for j in jars)
    netty = next(j for j in jars if j.coordinates.endswith(":linux-x86_64"))
    assert netty.path.endswith("-linux-x86_64.jar")


def test_only_what_is_missing_is_fetched(tmp_path, served):
    folder, url = served
    jars = repository(folder, b"one", b"two")
    first = fetch_jars(jars[:1], tmp_path / "jars", url)
    (folder / jars[0].path).unlink()
    (left := tmp_path / "jars" / ".part_left").mkdir()
    (left / "half.jar").write_bytes(b"half")
    (tmp_path / "jars" / ".part-half.jar").write_bytes(b"half")
    assert [p.read_bytes() for p in fetch_jars(jars, tmp_path / "jars", url)] == [b"one", b"two"]
    assert first[0].name == "jar0-1.0.jar"
    assert not list((tmp_path / "jars").glob(".part*"))


def test_a_jar_that_was_damaged_in_the_cache_is_fetched_again(tmp_path, served):
    folder, url = served
    jars = repository(folder, b"one", b"two")
    (damaged, _) = fetch_jars(jars, tmp_path / "jars", url)
    damaged.write_bytes(b"0ne")  # of the same size
    assert [p.read_bytes() for p in fetch_jars(jars, tmp_path / "jars", url)] == [b"one", b"two"]


def test_what_lies_in_a_folder_is_copied(tmp_path, monkeypatch):
    """From the folder of PALIMPSEST_MAVEN, or from what Maven fetched for this user."""
    jars = repository(tmp_path / "m2", b"one")
    monkeypatch.setenv("PALIMPSEST_MAVEN", "http://127.0.0.1:9")
    assert fetch_jars(jars, tmp_path / "a")[0].read_bytes() == b"one"
    monkeypatch.setenv("PALIMPSEST_MAVEN", str(tmp_path / "m2"))
    assert fetch_jars(jars, tmp_path / "b")[0].read_bytes() == b"one"
    (tmp_path / "m2" / jars[0].path).write_bytes(b"0ne")
    with pytest.raises(ComponentFailed, match="matches the lock file"):
        fetch_jars(jars, tmp_path / "c")


def test_a_jar_with_another_hash_is_refused_and_not_kept(tmp_path, served):
    folder, url = served
    jars = repository(folder, b"one")
    (folder / jars[0].path).write_bytes(b"0ne")
    with pytest.raises(PalimpsestError, match="is not the locked file"):
        fetch_jars(jars, tmp_path / "jars", url)
    assert not list((tmp_path / "jars").rglob("*.jar"))


def test_without_a_network_the_error_says_what_to_do(tmp_path):
    jars = repository(tmp_path / "r", b"one")
    with pytest.raises(ComponentFailed, match="PALIMPSEST_MAVEN"):
        fetch_jars(jars, tmp_path / "jars", "http://127.0.0.1:9")


def test_a_source_that_is_neither_url_nor_folder_is_refused(tmp_path):
    with pytest.raises(PalimpsestError, match="PALIMPSEST_MAVEN"):
        fetch_jars([], tmp_path, str(tmp_path / "none"))
