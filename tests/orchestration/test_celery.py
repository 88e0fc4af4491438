"""Steps on a real Celery worker, whose broker is a folder."""

import contextlib
import datetime as dt
import pickle
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kombu import Connection, Queue

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.celery_broker import BROKER, broker_from_environment, make_executor
from palimpsest.orchestration.executors import EXECUTOR, executor_from_environment
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.orchestration.jobs import environment_of, execute_job, last_run, new_home, step_processes
from tests.small_corpus import write_chats

_START_S = 120


@pytest.fixture(autouse=True)
def _own_temporary_files(monkeypatch: pytest.MonkeyPatch):
    """The folder of temporary files, which the executor changes, is what it was after the test."""
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())


@contextmanager
def worker(home: Home, log: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a worker as docs/dagster.md has it, until the block ends."""
    options = ["--pool", "solo", "--without-gossip", "--without-mingle", "--loglevel", "INFO"]
    command = [sys.executable, "-m", "celery", "--app", "palimpsest.orchestration.celery_app", "worker", *options]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, env=environment_of(home, **settings), cwd=home.path, stdout=out, stderr=out
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _START_S
            while b" ready." not in log.read_bytes():
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path):
        self._path = path

    def __reduce__(self):
        return open, (str(self._path), "w")


def send_pickle(broker: Path, path: Path) -> None:
    """Sends a task whose message runs code where it is unpickled."""
    options = make_executor().config_source.broker_transport_options
    with Connection("filesystem://", transport_options=options) as connection:
        queue = Queue("dagster", routing_key="dagster.#")
        headers = {"task": "execute_plan", "id": "1", "lang": "py"}
        connection.Producer(serializer="pickle").publish(
            ((Touch(path),), {}, {}), routing_key="dagster", headers=headers, declare=[queue], exchange=queue.exchange
        )


@pytest.mark.slow
def test_a_build_on_a_celery_worker_equals_one_in_one_process_and_a_pickled_task_is_refused(tmp_path, monkeypatch):
    corpus, found = write_chats(tmp_path / "corpus"), {}
    broker, log, touched = tmp_path / "broker", tmp_path / "worker.log", tmp_path / "touched"
    settings = {EXECUTOR: "celery", BROKER: f"filesystem://{broker}"}
    for executor in ("in_process", "celery"):
        home = new_home(tmp_path / executor, corpus)
        if executor == "in_process":
            build(home, {EXECUTOR: executor})
        else:
            monkeypatch.setenv(BROKER, settings[BROKER])
            send_pickle(broker, touched)
            with worker(home, log, **settings) as process:
                for processes in build(home, settings):
                    assert set(processes.values()) == {process.pid}, "every step runs in the worker"
        found[executor] = published(home).manifest.digest
    assert found["celery"] == found["in_process"]
    assert "Refusing to deserialize" in log.read_text() and not touched.exists()
    assert [p for p in broker.rglob("*") if p.suffix == ".msg"] == [], "no message is left"
    assert {p.stat().st_mode & 0o077 for p in (broker, broker / "messages", broker / "taken")} == {0}


def build(home: Home, settings: dict[str, str]) -> list[dict[str, int | None]]:
    """Builds a home with Dagster's command line; returns the process of each step of both runs."""
    processes = []
    for job, partition in (("build_collection", "chats"), ("publish_build", "")):
        done = execute_job(home, job, partition, **settings)
        assert done.returncode == 0, done.stderr[-3000:]
        assert last_run(home).status == dg.DagsterRunStatus.SUCCESS
        processes.append(step_processes(home, last_run(home).run_id))
    return processes


def test_a_pickled_task_is_what_it_is_taken_for(tmp_path):
    pickle.loads(pickle.dumps(Touch(tmp_path / "touched"))).close()
    assert (tmp_path / "touched").exists()


def test_only_json_is_accepted_and_only_steps_are_run(tmp_path, monkeypatch):
    monkeypatch.setenv(BROKER, f"filesystem://{tmp_path / 'broker'}")
    from palimpsest.orchestration.celery_app import app

    assert (app.conf.accept_content, app.conf.task_serializer, app.conf.result_serializer) == (["json"], "json", "json")
    assert {name for name in app.tasks if not name.startswith("celery.")} == {"execute_plan"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of localhost and its key."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    no_password = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password)
    (folder / "localhost.pem").write_bytes(private + pem)
    return folder


@pytest.mark.parametrize(("host", "accepted"), [("localhost", True), ("127.0.0.1", False)])
def test_the_certificate_of_an_amqps_broker_is_compared_with_its_name(certificates, monkeypatch, host, accepted):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "localhost.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "localhost.pem")
    heard: list[bytes] = []

    def answer(listening: socket.socket) -> None:
        while True:  # the client tries again
            try:
                accepted_socket, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(accepted_socket, server_side=True) as connection:
                heard.append(connection.recv(8))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        monkeypatch.setenv(BROKER, f"amqps://user:word@{host}:{listening.getsockname()[1]}/home")
        executor = make_executor()
        options = {"ssl": executor.config_source.broker_use_ssl, "connect_timeout": 10}
        with pytest.raises(OSError) as failed, Connection(executor.broker, **options) as connection:
            connection.connect()
    assert (set(heard) == {b"AMQP\0\0\x09\x01"}) == accepted and bool(heard) == accepted
    assert ("CERTIFICATE_VERIFY_FAILED" in str(failed.value)) != accepted


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "name the broker of the Celery workers"),
        ("localhost", "name the broker of the Celery workers"),
        *(
            (url, "name the broker of the Celery workers")
            for url in ("kafka9://h", "amqps://u:zq@h:port/v", "amqps://[::1")
        ),
        ("sentinel://a:1;sentinel://b:x", "name the broker of the Celery workers"),
        ("filesystem://folder", "write the folder as an absolute path"),
        ("filesystem:///proc/none", "name a folder that can be written"),
    ],
)
def test_a_wrong_broker_is_one_line(monkeypatch, url, reason):
    monkeypatch.setenv(EXECUTOR, "celery")
    monkeypatch.setenv(BROKER, url)
    with pytest.raises(PalimpsestError, match=f"{BROKER}: .*{reason}") as raised:
        executor_from_environment()
    assert "\n" not in str(raised.value) and "zq" not in str(raised.value)


def test_a_folder_that_other_users_can_read_is_no_broker(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    monkeypatch.setenv(BROKER, f"filesystem://{tmp_path}")
    with pytest.raises(PalimpsestError, match="other users can read or write it; run chmod 700"):
        broker_from_environment()
    assert not list(tmp_path.iterdir())
