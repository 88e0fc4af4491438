"""A builder in a process of its own that is killed at its n-th call of the store, before it or when it has answered."""

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import obstore

from palimpsest.core.times import parse_time
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import published
from palimpsest.store.home import Home, send_unwritten
from palimpsest.store.remote_home import local_home
from palimpsest.store.table_store import OBJECTS
from palimpsest_eval.runs.judge_build import find_violations
from tests.chaos.child import use_words

NEVER = 10**9
TEXT = "The spare key of the boat house hangs behind the clock."
_WAIT_S = 60.0


def send(home: Home) -> None:
    """Sends the text of the test; the same rows in every home."""
    when = parse_time("2026-05-01T09:00:00Z")
    ingest_text(home, TEXT, user="ann", collection="chats", observed_at=when, operation_id="boat-house")


def build_home(home: Home, corpus: Path) -> None:
    with home.lock(_WAIT_S):
        if not (plan := make_plan(home, [corpus])).nothing_to_do:
            run_without_dagster(home, plan)


def send_and_build_until(point: int, url: str, corpus: Path, environment: Mapping[str, str], said: Path) -> None:
    """Sends a text and builds, until the n-th point, at which the process is killed.

    Points are before each call of the store, and after each that writes or removes; after that of an object of content,
    of which there are many alike, the next point is the same.

    Args:
        point: n, from 0.
        url: of the home.
        corpus: folder of collections.
        environment: variables of this builder.
        said: file of what it acknowledged, and at its end its points.
    """
    _begin(environment)
    points: list[str] = []
    for name in ("get", "put", "list", "delete"):
        setattr(obstore, name, _killing(name, getattr(obstore, name), points, point))
    home = Home(local_home(url))
    send(home)
    said.write_text("received\n")
    send_unwritten(home.path, _WAIT_S)
    said.write_text("acknowledged\n")
    build_home(home, corpus)
    said.write_text(json.dumps(points))


def build(url: str, corpus: Path, environment: Mapping[str, str], found: Path) -> None:
    """Builds on any machine; writes the digest, how often the text is in it, and what is wrong."""
    _begin(environment)
    home = Home(local_home(url))
    send_unwritten(home.path, _WAIT_S)
    build_home(home, corpus)
    current = published(home)
    assert current is not None
    texts = current.table("chats", "memories")["text"].to_list()
    found.write_text(json.dumps([current.manifest.digest, texts.count(TEXT), find_violations(home, current)]))


def _begin(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    use_words()


def _killing(name: str, call: Callable[..., Any], points: list[str], point: int) -> Callable[..., Any]:
    def at(when: str, key: object) -> None:
        if len(points) == point:
            os.kill(os.getpid(), signal.SIGKILL)
        points.append(f"{when} {name} {key}")

    def killing(store: object, key: object = None, *arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():  # the lease is renewed at any moment
            return call(store, key, *arguments, **options)
        at("before", key)
        answer = call(store, key, *arguments, **options)
        if name in ("put", "delete") and not str(key).startswith(OBJECTS):
            at("after", key)
        return answer

    return killing
