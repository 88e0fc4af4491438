"""A real S3 server on this machine, a bucket, and homes in it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from palimpsest.store.home import Home
from palimpsest.store.remote_home import local_home

_START_S = 60


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that speaks S3; it has the conditional writes of S3."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()
                break
            except OSError:
                assert time.monotonic() < deadline and server.poll() is None, "the S3 server does not start"
                time.sleep(0.1)
        yield url
        server.terminate()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """A client of the server, whose address and keys are in the environment; the cache of copies is the test's own."""
    for name, value in s3_environment(s3_server, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3")


def s3_environment(server: str, cache: Path) -> dict[str, str]:
    """Returns the variables with which this and other processes find the server and a cache of their own."""
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(cache),
    }


@pytest.fixture
def bucket(s3: object, tmp_path: Path) -> str:
    """The name of an empty bucket of the test's own, with versions."""
    name = f"bucket-{os.getpid()}-{abs(hash(tmp_path)) % 10**9}"
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


@pytest.fixture
def url(bucket: str) -> str:
    return f"s3://{bucket}/home"


@pytest.fixture
def elsewhere(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_vectors: Path) -> Callable[..., Home]:
    """Returns what moves to another machine and gives its copy; the machine's number keeps copies apart."""

    def move(number: int = 1) -> Home:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"machine-{number}"))
        return Home(local_home(url), shared_vectors)

    return move


class Killed(BaseException):
    """Stands for a kill: nothing is cleaned up that matters here."""


def kill(*_: object) -> bool:
    raise Killed
