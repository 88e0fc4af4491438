"""Instances: homes with names, started and stopped apart from one another, and removed only where they are homes."""

import json
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from palimpsest.cli.instance_registry import instances_folder, read_instances
from palimpsest.cli.manage_instances import (
    add_instance,
    create_instance,
    delete_instance,
    instance_status,
    list_instances,
    stop_instance,
)
from palimpsest.cli.processes import BUILDS, SERVICE, ProcessRecord, record_path, write_record
from palimpsest.core.errors import ArgumentError, DamagedFile, PalimpsestError
from palimpsest.core.parallel import process_started
from palimpsest.store.home import Home, make_service_folder
from tests.command import last_json, process, run


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def registry() -> Path:
    return instances_folder() / "registry.json"


def test_an_instance_runs_and_another_one_does_not(home):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    run("instance", "add", "work", "--home", home.path, "--port", port)
    create_instance("empty")
    started = process("instance", "start", "work", "--json")
    assert started.returncode == 0, started.stderr
    assert last_json(started)["service"]["url"] == f"http://127.0.0.1:{port}"
    listed = last_json(run("instance", "list", "--json"))["instances"]
    assert {i["name"]: (i["state"], i["home_state"]) for i in listed} == {
        "work": ("running", "built"),
        "empty": ("stopped", "empty"),
    }
    started = process("instance", "start", "empty", "--json")
    assert last_json(started)["service"]["state"] == "running", started.stderr
    assert last_json(run("instance", "stop", "empty", "--json"))["stopped"] == ["service"]
    assert "serving home" in run("instance", "logs", "work").stdout
    deleted = run("instance", "delete", "work", "--yes")
    assert deleted.returncode == 0 and "is still there" in deleted.stdout
    assert (home.path / "format.json").exists() and list(read_instances()) == ["empty"]
    assert run("service", "status", "--home", home.path).returncode == 3


def test_a_home_on_object_storage_is_refused_with_what_to_do_instead():
    refused = run("instance", "add", "work", "--home", "s3://bucket/prefix")
    assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1
    assert "--home s3://bucket/prefix: an instance is a folder" in refused.stderr
    assert "palimpsest service start --home s3://bucket/prefix" in refused.stderr and not read_instances()


def test_path_and_env_make_every_command_about_an_instance():
    made = create_instance("one", backend="neo4j")
    assert run("instance", "path", "one").stdout.strip() == str(made.home)
    lines = run("instance", "env", "one").stdout.splitlines()
    assert f"export PALIMPSEST_HOME={made.home}" in lines and f"export PALIMPSEST_SERVE_PORT={made.port}" in lines
    assert "export PALIMPSEST_BACKEND=neo4j" in lines and len(lines) == 4
    assert instance_status("one").neo4j is False and stop_instance("one") == []


def test_each_instance_has_a_port_of_its_own():
    first, second = create_instance("a"), create_instance("b")
    assert first.port != second.port
    with pytest.raises(ArgumentError, match="that of instance a"):
        create_instance("c", port=first.port)
    assert not (instances_folder() / "c").exists()


def test_a_port_on_which_something_listens_is_not_given():
    port = create_instance("a").port
    delete_instance("a")
    with socket.create_server(("127.0.0.1", port)):
        assert create_instance("b").port != port


def test_instances_that_are_made_at_once_are_all_listed_with_ports_of_their_own():
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create_instance, [f"i{n}" for n in range(8)]))
    assert len({i.port for i in made}) == 8 and list(read_instances()) == [f"i{n}" for n in range(8)]


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "-a", "a-", "a b", "é", "x" * 41, ".", "a\n"])
def test_a_name_that_is_no_folder_is_refused(name):
    with pytest.raises(ArgumentError):
        create_instance(name)
    done = run("instance", "path", "--", name)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not registry().exists()


def test_registry_and_folders_are_of_their_owner_alone():
    made = create_instance("a")
    for path in (instances_folder(), registry(), made.home):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_name_is_used_once_and_a_home_has_one_name(home):
    create_instance("a")
    with pytest.raises(ArgumentError, match="is in use"):
        create_instance("a")
    add_instance("b", home.path)
    with pytest.raises(ArgumentError, match="is in use"):
        add_instance("a", home.path)
    with pytest.raises(PalimpsestError, match="is the instance b already"):
        add_instance("c", home.path)


def test_a_folder_that_is_no_home_is_neither_registered_nor_removed(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "precious").write_text("x")
    with pytest.raises(PalimpsestError, match="is none"):
        add_instance("a", folder)
    created = create_instance("b")
    rewrite(lambda rows: rows["b"].update(home=str(folder), is_own=False))
    with pytest.raises(PalimpsestError, match="is no home"):
        delete_instance("b", with_home=True)
    rewrite(lambda rows: rows["b"].update(home=str(folder), is_own=True))
    with pytest.raises(PalimpsestError, match="is no home"):
        delete_instance("b")
    assert (folder / "precious").exists() and created.home.exists()


def rewrite(change) -> None:
    """Changes the registry as somebody who edits it by hand: without its checksum."""
    listed = json.loads(registry().read_text())
    listed.pop("checksum", None)
    change(listed["instances"])
    registry().write_text(json.dumps(listed))


def test_what_was_made_here_goes_with_its_home_and_what_was_registered_stays(home):
    made = create_instance("a")
    (made.home / "something").write_text("x")
    refused = run("instance", "delete", "a")
    assert refused.returncode == 2 and "--yes" in refused.stderr and made.home.exists()
    done = run("instance", "delete", "a", "--yes", "--json")
    assert last_json(done)["home_removed"] and not (instances_folder() / "a").exists() and not read_instances()
    add_instance("b", home.path)
    assert delete_instance("b", with_home=True) == home.path.resolve() and not home.path.exists()


def test_an_instance_whose_record_is_damaged_is_deleted_and_its_other_parts_are_stopped(home):
    add_instance("a", home.path)
    service = subprocess.Popen(["sleep", "60"])
    try:
        make_service_folder(home.path)
        started = process_started(service.pid) or ""
        write_record(home.path, SERVICE.name, ProcessRecord(service.pid, started, "127.0.0.1", 9, "duckdb"))
        record_path(home.path, BUILDS.name).write_text("{")
        assert instance_status("a").builds is None
        with pytest.raises(DamagedFile):
            stop_instance("a")
        assert service.poll() is None
        assert delete_instance("a", with_home=True) == home.path.resolve()
        assert service.wait(20) is not None and not home.path.exists() and not read_instances()
    finally:
        service.kill()
        service.wait()


def test_a_home_that_is_a_link_is_not_followed(home):
    made = create_instance("a")
    made.home.rename(made.home.with_name("moved"))
    made.home.symlink_to(home.path)
    with pytest.raises(PalimpsestError, match="is a link; nothing was removed"):
        delete_instance("a")
    assert (home.path / "format.json").exists() and list(read_instances()) == ["a"]


def test_a_home_that_a_build_is_writing_is_not_removed(home):
    from filelock import FileLock

    add_instance("a", home.path)
    with FileLock(home.path / ".lock"):
        done = process("instance", "delete", "a", "--with-home", "--yes")
    assert done.returncode == 2 and "another build is writing it" in done.stderr
    assert (home.path / "format.json").exists() and list(read_instances()) == ["a"]


def test_a_registry_that_is_a_link_is_refused(tmp_path):
    create_instance("a")
    registry().rename(tmp_path / "elsewhere.json")
    registry().symlink_to(tmp_path / "elsewhere.json")
    before = (tmp_path / "elsewhere.json").read_bytes()
    for args in (("list",), ("create", "b"), ("delete", "a", "--yes")):
        done = run("instance", *args)
        assert done.returncode == 2 and "is a link" in done.stderr
    assert (tmp_path / "elsewhere.json").read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_registry_of_another_user_is_refused():
    create_instance("a")
    os.chown(registry(), 4_242, 4_242)
    done = run("instance", "list")
    assert done.returncode == 2 and "belongs to another user" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"instances": []}',
        '{"instances": {"a": 3}}',
        '{"instances": {"../a": {}}}',
        '{"instances": {"a": {"home": "relative", "port": 1, "backend": "duckdb", "is_own": true, "created_at": ""}}}',
        '{"instances": {}, "checksum": "0"}',
    ],
)
def test_a_damaged_registry_is_one_line(text):
    create_instance("a")
    registry().write_text(text)
    with pytest.raises(DamagedFile):
        list_instances()
    done = run("instance", "list")
    assert done.returncode == 2 and "registry.json" in done.stderr and done.stderr.count("\n") == 1


def test_an_instance_whose_home_is_gone_can_still_be_deleted(home):
    add_instance("a", home.path)
    home.path.rename(home.path.with_name("elsewhere"))
    assert instance_status("a").home == "gone"
    started = run("instance", "start", "a")
    assert started.returncode == 3 and "is gone" in started.stderr
    assert delete_instance("a", with_home=True) is not None and not read_instances()
    assert Home(home.path.with_name("elsewhere")).path.is_dir()
