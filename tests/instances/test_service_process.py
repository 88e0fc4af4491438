"""The service in the background: it starts ready or not at all, is one, and is known by more than its process id."""

import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from palimpsest.cli.processes import (
    BUILDS,
    SERVICE,
    BoundedLog,
    ProcessRecord,
    log_lines,
    log_path,
    read_record,
    record_path,
    start_service,
    status,
    stop,
    write_record,
)
from palimpsest.core.errors import ComponentFailed, DamagedFile, PalimpsestError
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.store.builds import published
from palimpsest.store.home import Home, make_service_folder, service_folder
from tests.command import last_json, process, run


def test_a_service_is_started_looked_at_and_stopped_by_commands(home):
    at = ("--home", home.path, "--json")
    started = process("service", "start", "--port", "0", *at)
    assert started.returncode == 0, started.stderr
    said = last_json(started)
    assert said["state"] == "running" and said["build_id"] == "000001" and said["url"].startswith("http://127.0.0.1:")
    for port in (0, said["port"]):
        assert last_json(run("service", "start", "--port", port, *at))["pid"] == said["pid"]
    assert last_json(run("service", "start", *at))["pid"] == said["pid"]
    for option, value, named in (
        ("--port", 9, "port"),
        ("--backend", "neo4j", "backend"),
        ("--build-every", 5, "build-every of"),
    ):
        other = run("service", "start", option, value, *at)
        assert other.returncode == 2 and f"service: runs with {named}" in other.stderr and other.stderr.count("\n") == 1
        assert f"palimpsest service stop --home {home.path}" in other.stderr
    run("instance", "add", "work", "--home", home.path, "--port", 8)
    assert f"work: running, port {said['port']}, duckdb" in run("instance", "list").stdout
    assert last_json(run("instance", "list", "--json"))["instances"][0]["port"] == said["port"]
    assert last_json(run("service", "status", *at))["state"] == "running"
    assert any("serving home" in line for line in last_json(run("service", "logs", *at))["lines"])
    for path in (service_folder(home.path), *service_folder(home.path).iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    assert delete(Home(home.path), user="ann").to_json()["residue"] == []
    assert last_json(run("service", "stop", *at)) == {"ran": True, "builds_ran": False} and not psutil.pid_exists(
        said["pid"]
    )
    done = run("service", "status", *at)
    assert (done.returncode, last_json(done)["state"]) == (3, "stopped")
    assert last_json(run("service", "stop", *at)) == {"ran": False, "builds_ran": False}


def test_two_starts_at_once_give_one_service_and_a_killed_one_is_known_as_ended(home):
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: start_service(home, 0, "duckdb"), range(2)))
    assert found[0] == found[1] and found[0].record is not None
    pid = found[0].record.pid
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(20)
    assert status(home, SERVICE).state == "ended"
    done = run("service", "status", "--home", home.path)
    assert done.returncode == 3 and "ended" in done.stderr
    assert not stop(home, SERVICE) and status(home, SERVICE).state == "stopped"


def test_a_process_that_got_the_id_of_a_service_is_neither_it_nor_stopped(home):
    other = subprocess.Popen(["sleep", "60"])
    try:
        make_service_folder(home.path)
        write_record(home.path, SERVICE.name, ProcessRecord(other.pid, "1", "127.0.0.1", 9, "duckdb"))
        assert status(home, SERVICE).state == "ended"
        assert not stop(home, SERVICE)
        time.sleep(0.2)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def fails(home: Home, port: int = 0, backend: str = "duckdb") -> str:
    with pytest.raises(ComponentFailed) as error:
        start_service(home, port, backend)
    assert status(home, SERVICE).state == "stopped"
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_port_in_use_is_the_reason_and_nothing_is_left_running(home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in fails(home, taken.getsockname()[1])
    assert "in use" in "\n".join(log_lines(home, SERVICE, 5))


def test_a_damaged_build_is_not_served(home):
    build = published(home)
    assert build is not None
    data = bytearray(build.index.read_bytes())
    data[len(data) // 2] ^= 0xFF
    before = build.index.stat()
    build.index.write_bytes(data)
    os.utime(build.index, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a failing disk does it
    assert "index.duckdb of build 000001 is damaged; run palimpsest build" in fails(home)


def test_a_folder_with_other_files_is_no_home_and_nothing_is_written_into_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_JWT_SECRET", "k" * 48)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hosts").touch()
    with pytest.raises(PalimpsestError, match="has files and is no home"):
        start_service(Home(tmp_path / "etc"), 0, "duckdb")
    assert [p.name for p in (tmp_path / "etc").iterdir()] == ["hosts"]


def test_a_new_home_without_a_key_is_served_with_a_secret_of_its_own(home, tmp_path, monkeypatch):
    monkeypatch.delenv("PALIMPSEST_JWT_SECRET")
    new = Home(tmp_path / "new")
    early = run("serve", "token", "--user", "ann", "--home", new.path)
    assert early.returncode == 2 and "to verify tokens; none is set" in early.stderr and not new.path.exists()
    started = last_json(process("service", "start", "--port", "0", "--build-every", "0", "--home", new.path, "--json"))
    assert started["build_id"] == ""
    token = last_json(run("serve", "token", "--user", "ann", "--home", new.path, "--json"))["token"]
    with httpx.Client(base_url=started["url"], headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.post("/memory", json={"text": "My bike is red."}).status_code == 202
        found = client.get("/search", params={"q": "bike", "include_pending": True}).json()
        assert [m["text"] for m in found["memories"] if m["is_pending"]] == ["My bike is red."]
    secret = service_folder(new.path) / "jwt-secret"
    assert secret.stat().st_mode & 0o077 == 0 and not (service_folder(home.path) / secret.name).exists()
    assert stop(new, SERVICE)
    secret.chmod(0o644)
    refused = run("service", "start", "--home", new.path)
    assert refused.returncode == 2 and str(secret) in refused.stderr
    monkeypatch.setenv("PALIMPSEST_JWT_SECRET", "short")
    with pytest.raises(PalimpsestError, match="32 bytes"):
        start_service(home, 0, "duckdb")


def test_a_record_that_is_damaged_or_a_link_is_named(home, tmp_path):
    make_service_folder(home.path)
    path = record_path(home.path, SERVICE.name)
    path.write_text("{")
    done = run("service", "status", "--home", home.path)
    assert done.returncode == 2 and str(path) in done.stderr
    path.unlink()
    write_record(home.path, SERVICE.name, ProcessRecord(os.getpid(), "1", "127.0.0.1", 9, "duckdb"))
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DamagedFile):
        read_record(home.path, SERVICE.name)
    path.unlink()


def test_lines_of_a_log_are_shown_without_colours_and_other_codes_are_escaped(home):
    make_service_folder(home.path)
    log_path(home, BUILDS).write_text("\x1b[32m2026-11-26\x1b[0m - \x1b[1;34mINFO\x1b[0m ready\x1b]0;mine\x07\n")
    lines = last_json(run("service", "logs", "--builds", "--home", home.path, "--json"))["lines"]
    assert lines == ["2026-11-26 - INFO ready\x1b]0;mine\x07"]
    assert "\x1b" not in run("service", "logs", "--builds", "--home", home.path).stdout


def test_a_log_that_is_a_link_is_not_written_through(home, tmp_path):
    make_service_folder(home.path)
    (tmp_path / "precious").write_text("precious")
    log_path(home, SERVICE).symlink_to(tmp_path / "precious")
    done = run("service", "start", "--home", home.path, "--port", "0")
    assert done.returncode in (2, 3) and done.stderr.count("\n") == 1
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_delete_removes_lines_of_the_log_that_name_what_is_deleted(home):
    make_service_folder(home.path)
    log = log_path(home, SERVICE)
    log.write_text("error: The bridge is 40 metres long.\nsomething else\n")
    assert delete(Home(home.path), user="ann").to_json()["residue"] == []
    assert log.read_text() == "something else\n"


def test_no_backup_takes_the_files_of_the_service(home, tmp_path):
    from palimpsest.pipeline.backup import backup_home, restore_home

    write_record_of_this_process(home)
    backup_home(home, tmp_path / "b.palimpsest")
    restore_home(tmp_path / "b.palimpsest", Home(tmp_path / "restored"))
    assert not service_folder(tmp_path / "restored").exists()


def write_record_of_this_process(home: Home) -> None:
    make_service_folder(home.path)
    write_record(home.path, SERVICE.name, ProcessRecord(os.getpid(), "1", "127.0.0.1", 9, "duckdb"))


def test_a_record_says_what_was_written(home):
    write_record_of_this_process(home)
    found = read_record(home.path, SERVICE.name)
    assert found == ProcessRecord(os.getpid(), "1", "127.0.0.1", 9, "duckdb") and not found.is_running
    assert replace(found, port=10).url == "http://127.0.0.1:10"


def test_a_full_log_becomes_the_older_one_and_children_go_on_writing_to_it(tmp_path: Path):
    path = tmp_path / "service.log"
    kept = [os.dup(n) for n in (1, 2)]
    try:
        log = BoundedLog(path, max_bytes=12)
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        os.write(1, b"0123456789 full\n")
        log.look()
        child.communicate(b"of a child\n")
        log.look()
        texts = path.read_text(), (tmp_path / "service.log.1").read_text()
        path.unlink()
        log.look()
        os.write(1, b"again\n")
    finally:
        for n, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, n)
            os.close(descriptor)
    assert texts == ("of a child\n", "0123456789 full\n") and path.read_text() == "again\n"
    assert path.stat().st_mode & 0o077 == (tmp_path / "service.log.1").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_nightly_builds_run_beside_the_service_and_stop_with_it(home):
    at = ("--home", home.path, "--json")
    started = process("service", "start", "--port", "0", "--builds", *at)
    assert started.returncode == 0, started.stderr
    builds = last_json(started)["builds"]
    assert builds["state"] == "running" and builds["url"].startswith("http://127.0.0.1:")
    assert last_json(run("service", "status", *at))["builds"]["pid"] == builds["pid"]
    assert last_json(run("service", "logs", "--builds", *at))["lines"]
    children = psutil.Process(builds["pid"]).children(recursive=True)
    assert children
    assert last_json(run("service", "stop", *at)) == {"ran": True, "builds_ran": True}
    gone, alive = psutil.wait_procs(children, 20)
    assert gone and not alive
