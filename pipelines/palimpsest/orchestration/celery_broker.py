"""Celery as the executor of Dagster's steps: where its messages go, and what may be in them.

Tasks and results are JSON: a message that is pickled is refused. Results come back through the broker and are kept
nowhere else. Whoever can write to the broker decides what a worker runs.
"""

import os
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
from dagster_celery.executor import CeleryExecutor

from palimpsest.core.errors import PalimpsestError

BROKER = "PALIMPSEST_CELERY_BROKER"
FOLDER = "filesystem://"
_EXAMPLES = "amqps://USER:PASSWORD@HOST/VHOST, rediss://:PASSWORD@HOST/0?ssl_cert_reqs=required or filesystem:///FOLDER"
_SCHEMES = ("amqp", "amqps", "pyamqp", "redis", "rediss", "sentinel", "filesystem")
_TASKS_S = 12 * 3600
"""Redis gives a task that no worker has begun for an hour to another worker as well; a stage can take longer."""
_SETTINGS = {
    "task_serializer": "json",
    "result_serializer": "json",
    "accept_content": ["json"],
    "worker_hijack_root_logger": False,
    "broker_connection_retry_on_startup": True,
}


def broker_from_environment() -> str:
    """Returns the URL of the broker.

    Raises:
        PalimpsestError: the environment names none that is known, or a folder that another user can read.
    """
    url = os.environ.get(BROKER, "").strip()
    if not all(map(_is_broker, url.split(";"))):  # several are tried one after the other; a URL may have a password
        raise PalimpsestError(f"{BROKER}: name the broker of the Celery workers, such as {_EXAMPLES}")
    if url.startswith(FOLDER):
        _check_folder(_folder(url))
    return url


def _is_broker(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in _SCHEMES and bool(url.startswith(FOLDER) or parts.hostname) and parts.port != 0
    except ValueError:  # a port or an address that is none
        return False


def make_executor() -> CeleryExecutor:
    """Returns the executor that sends steps to the broker of the environment; Celery's settings of workers are its own.

    Raises:
        PalimpsestError: see `broker_from_environment`.
    """
    from dagster._core.execution.retries import RetryMode

    url = broker_from_environment()
    options: dict[str, Any] = {"max_retries": 3, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
    if url.startswith(FOLDER):
        options |= _folder_options(_folder(url))
        url = FOLDER
    elif url.startswith(("redis", "sentinel")):
        options["visibility_timeout"] = _TASKS_S
    settings = {**_SETTINGS, **_tls_settings(url), "broker_transport_options": options}
    return CeleryExecutor(RetryMode(RetryMode.DISABLED), url, "rpc://", config_source=settings)  # type: ignore[no-untyped-call]


@dg.executor(name="celery", requirements=dg.multiple_process_executor_requirements())
def celery_executor(_: dg.InitExecutorContext) -> CeleryExecutor:
    """Sends each step to a Celery worker."""
    return make_executor()


def _tls_settings(url: str) -> dict[str, Any]:
    """Returns Celery's setting of TLS for AMQP: py-amqp compares a certificate with no name unless it is given one."""
    if not url.startswith("amqps://"):
        return {}
    return {"broker_use_ssl": {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": urlsplit(url).hostname}}


def _folder(url: str) -> Path:
    path = Path(url.removeprefix(FOLDER))
    if not path.is_absolute():
        raise PalimpsestError(f"{BROKER}: {url[:80]}: write the folder as an absolute path, filesystem:///FOLDER")
    return path


def _check_folder(folder: Path) -> None:
    """Makes a folder of messages, private to this user.

    Raises:
        PalimpsestError: it cannot be made, or another user owns it, or can read or write it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            problem = "other users can read or write it; run chmod 700 on your own folder"
            raise PalimpsestError(f"{BROKER}: {folder}: {problem}")
        for name in _FOLDERS:
            (folder / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise PalimpsestError(f"{BROKER}: {folder}: {e.strerror}; name a folder that can be written") from None


_FOLDERS = ("messages", "control", "taken")


def _folder_options(folder: Path) -> dict[str, str]:
    """Returns kombu's options of a broker that is a folder.

    kombu moves a message that it takes to the folder of temporary files. That must be on the same file system, where
    a move is one rename, or two workers could take one message; and messages are not for other users.
    """
    tempfile.tempdir = str(folder / "taken")
    messages = str(folder / "messages")
    return {"data_folder_in": messages, "data_folder_out": messages, "control_folder": str(folder / "control")}
