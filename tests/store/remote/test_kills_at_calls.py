"""SIGKILL at each call of the store in turn: a later builder publishes the same build and all that was acknowledged."""

import json
import multiprocessing
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.lease import LEASE_VARIABLE
from tests.chaos.child import use_words
from tests.small_corpus import TURNS, write_chats
from tests.store.remote import killed_builder
from tests.store.remote.conftest import s3_environment

pytestmark = pytest.mark.slow
_ADDED = ("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z")
_MAX_S = 120
_CONTENT_EVERY = 4
"""Of the many objects of content, which are written one like the other, the builder is killed at each fourth."""


class Rounds:
    """One home in a bucket, two machines, and the state to which both are put back before each kill."""

    def __init__(self, server: str, bucket: str, folder: Path):
        self._server, self._bucket, self._folder = server, bucket, folder
        self._s3: Any = boto3.client("s3")
        self._url, self.corpus = f"s3://{bucket}/home", folder / "corpus"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.store.remote.preloaded"])

    def run(self, target: Any, *arguments: object) -> int | None:
        process = self._context.Process(target=target, args=arguments)
        process.start()
        process.join(_MAX_S)
        assert not process.is_alive(), arguments
        return process.exitcode

    def environment(self, machine: str) -> Mapping[str, str]:
        return {**s3_environment(self._server, self._folder / machine), LEASE_VARIABLE: "1"}

    def kill_at(self, point: int) -> tuple[int | None, str]:
        """Sends and builds on machine a until a point; returns the exit code and what was acknowledged."""
        said = self._folder / "said"
        said.write_text("")
        code = self.run(killed_builder.send_and_build_until, point, self._url, self.corpus, self.environment("a"), said)
        return code, said.read_text()

    def build(self, machine: str) -> tuple[str, int, list[str]]:
        """Builds on a machine; returns the digest, how often the text is in the build, and violations."""
        found = self._folder / "found"
        found.unlink(missing_ok=True)
        assert self.run(killed_builder.build, self._url, self.corpus, self.environment(machine), found) == 0
        digest, count, violations = json.loads(found.read_text())
        return digest, count, violations

    def save(self) -> None:
        self._copy("home/", "saved/")
        for machine in "ab":
            shutil.copytree(self._folder / machine, self._folder / f"saved-{machine}")

    def restore(self) -> None:
        for key in self._keys("home/"):
            self._s3.delete_object(Bucket=self._bucket, Key=key)
        self._copy("saved/", "home/")
        for machine in "ab":
            shutil.rmtree(self._folder / machine)
            shutil.copytree(self._folder / f"saved-{machine}", self._folder / machine)

    def _copy(self, source: str, to: str) -> None:
        for key in self._keys(source):
            target = to + key.removeprefix(source)
            self._s3.copy_object(Bucket=self._bucket, Key=target, CopySource={"Bucket": self._bucket, "Key": key})

    def _keys(self, prefix: str) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]


def digest_in_a_folder(folder: Path, corpora: list[Path], with_text: bool) -> str:
    home = Home(folder)
    home.create()
    for i, corpus in enumerate(corpora):
        if i and with_text:
            killed_builder.send(home)
        killed_builder.build_home(home, corpus)
    current = published(home)
    assert current is not None
    return current.manifest.digest


def test_a_builder_killed_at_any_call_loses_nothing(s3_server, bucket, tmp_path, monkeypatch):
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", None)  # use_words replaces it; undone at the end
    use_words()
    rounds = Rounds(s3_server, bucket, tmp_path)
    write_chats(rounds.corpus)
    before = shutil.copytree(rounds.corpus, tmp_path / "before" / "corpus")
    assert [rounds.build(machine)[1:] for machine in "ab"] == [(0, []), (0, [])]
    write_chats(rounds.corpus, [*TURNS[1:], _ADDED])
    rounds.save()
    digests = [digest_in_a_folder(tmp_path / f"home-{w}", [before, rounds.corpus], w) for w in (False, True)]
    code, said = rounds.kill_at(killed_builder.NEVER)
    points = json.loads(said)
    assert code == 0 and {p.split()[1] for p in points} == {"get", "put", "list", "delete"}
    for point, name in enumerate(points):
        is_content = name.startswith("before put objects/")
        if is_content and point % _CONTENT_EVERY:
            continue
        rounds.restore()
        code, said = rounds.kill_at(point)
        assert code == -9, name
        digest, count, violations = rounds.build("b")
        assert (digest, violations) == (digests[count], []), name
        assert count == 1 or said != "acknowledged\n", name
        assert rounds.build("a") == (digests[1], 1, []) or not said, name
        if not is_content:
            last = rounds.build("b")
            assert (last == (digests[1], 1, []) or not said) and last[1] >= count, name
