import hashlib
from pathlib import Path

import pytest

from pipelines.errors import ComponentFailed, PalimpsestError
from pipelines.graph.fetch import Jar, fetch_jars, locked_jars


def repository(folder: Path, *contents: bytes) -> tuple[str, list[Jar]]:
    """A Maven repository on disk with a jar for each content."""
    jars = []
    for number, content in enumerate(contents):
        jar = Jar(f"org.made:jar{number}:1.0", hashlib.sha256(content).hexdigest(), len(content))
        (path := folder / jar.path).parent.mkdir(parents=True)
        path.write_bytes(content)
        jars.append(jar)
    return folder.as_uri(), jars


def test_the_lock_names_each_jar_with_version_and_hash() -> None:
    jars = locked_jars()
    assert "org.neo4j.app:neo4j-server:2026.08.1" in {j.coordinates for j in jars}
    assert len({j.file for j in jars}) == len(jars) > 200
    assert all(len(j.sha256) == 64 and j.size > 0 for j in jars)
    netty = next(j for j in jars if j.coordinates.endswith(":linux-x86_64"))
    assert netty.path.endswith("-linux-x86_64.jar")


def test_only_what_is_missing_is_fetched(tmp_path: Path) -> None:
    base, jars = repository(tmp_path / "r", b"one", b"two")
    first = fetch_jars(jars[:1], tmp_path / "jars", base)
    first[0].touch()
    (tmp_path / "r" / jars[0].path).unlink()
    (tmp_path / "jars" / ".left.jar.part").write_bytes(b"half")
    assert [p.read_bytes() for p in fetch_jars(jars, tmp_path / "jars", base)] == [b"one", b"two"]
    assert not list((tmp_path / "jars").glob(".*.part"))


def test_a_jar_with_another_hash_is_refused_and_not_kept(tmp_path: Path) -> None:
    base, jars = repository(tmp_path / "r", b"one")
    (tmp_path / "r" / jars[0].path).write_bytes(b"0ne")
    with pytest.raises(PalimpsestError, match="is not the locked file"):
        fetch_jars(jars, tmp_path / "jars", base)
    assert not list((tmp_path / "jars").glob("*.jar"))


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    _, jars = repository(tmp_path / "r", b"one")
    with pytest.raises(ComponentFailed, match="PALIMPSEST_MAVEN"):
        fetch_jars(jars, tmp_path / "jars", "http://127.0.0.1:9")


def test_a_base_that_is_no_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PalimpsestError, match="PALIMPSEST_MAVEN"):
        fetch_jars([], tmp_path, "/etc")
