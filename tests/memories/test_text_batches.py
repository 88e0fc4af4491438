import contextlib
import random
import socket
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from palimpsest.core import parallel
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.parallel import (
    Batch,
    BatchWork,
    Item,
    RayRunner,
    Refusal,
    Result,
    check_cluster,
    compute_batch,
    configured_runner,
)
from palimpsest.memories.embed import load_embedder
from palimpsest.memories.embedders import minilm_space
from palimpsest.memories.text_batches import PROBE_TEXTS, DistributedEmbedder, EmbedWork, text_batches
from palimpsest.pipeline.estimate import dry_run
from palimpsest.relations.labelers.choose_labeler import DistributedLabeler
from palimpsest.relations.labelers.label_types import LabelPair
from palimpsest.relations.labelers.offline_labeler import offline_labeler
from palimpsest.store.home import Home
from tests.memories.texts import TEXTS

_TEXTS = list(dict.fromkeys([*TEXTS, *PROBE_TEXTS, *(f"Line {i} of the log." for i in range(170))]))


class AnyOrder:
    """Computes batches in this process, in an order of its own, as workers finish in any."""

    def run(self, work: BatchWork[Item, Result], batches: list[Batch[Item]]) -> list[tuple[Batch[Item], Result]]:
        compute = work.load()
        return [(b, compute(b.items)) for b in random.Random(3).sample(batches, len(batches))]


def test_texts_embedded_in_batches_elsewhere_have_the_bits_of_those_embedded_here():
    seen: list[int] = []
    embedder = DistributedEmbedder(minilm_space(), AnyOrder())
    vectors = embedder.encode(_TEXTS, lambda rows, found: seen.extend(rows))
    assert np.array_equal(vectors, load_embedder().encode(_TEXTS))
    assert sorted(seen) == list(range(len(_TEXTS)))


def test_batches_of_the_same_texts_have_the_same_keys():
    batches = text_batches(_TEXTS)
    assert len({b.key for b in batches}) == len(batches) > 1
    assert batches == text_batches(list(_TEXTS))


def test_a_worker_whose_probe_differs_computes_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("palimpsest.core.parallel._refusal", lambda reason: Refusal("n", "h", reason))
    monkeypatch.setattr("palimpsest.memories.text_batches.PROBE_TEXTS", PROBE_TEXTS[:1])
    work = EmbedWork(minilm_space())
    refused = compute_batch(work, "other", ["I keep bees."])
    assert isinstance(refused, Refusal) and "other bits" in refused.reason
    here = work.probe(work.load())
    assert np.array_equal(compute_batch(work, here, ["I keep bees."]), load_embedder().encode(["I keep bees."]))


def test_pairs_labelled_in_batches_have_the_labels_and_the_program_of_the_labeler_of_builds():
    older = [f"The deadline of project {n} is {d} March." for n in ("Heron", "Otter") for d in range(1, 16)]
    newer = "The deadline of project Heron is now 20 April instead of 12 March."
    pairs = [LabelPair(f"n{i // 9}", f"o{i}", newer, text) for i, text in enumerate(older * 6)]
    whole = offline_labeler(10.0)
    distributed = DistributedLabeler(whole, AnyOrder())
    assert distributed.label(pairs) == whole.label(pairs)
    assert distributed.program_hash == whole.program_hash


def test_an_unknown_runner_is_one_line_of_a_dry_run_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PALIMPSEST_BATCHES", "spark")
    for run in (configured_runner, lambda: dry_run(Home(tmp_path), None, None)):
        with pytest.raises(PalimpsestError, match="PALIMPSEST_BATCHES: 'spark' must be one of local, ray"):
            run()


def _run_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # an import of it fails
    space = minilm_space()
    list(RayRunner(address).run(EmbedWork(space), text_batches(_TEXTS)))


def test_an_address_where_nothing_answers_or_that_drops_packets_is_one_line(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ComponentFailed, match=f"RAY_ADDRESS: no Ray cluster at {address} ") as failed:
            _run_at(address, monkeypatch)
    assert failed.value.exit_code == 3 and "\n" not in str(failed.value)

    def drop(address: tuple[str, int], timeout: float) -> socket.socket:
        assert address == ("::1", 6379) and timeout == 5.0
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", drop)
    with pytest.raises(ComponentFailed, match=r"RAY_ADDRESS: no Ray cluster at \[::1\]:6379 \(timed out\)"):
        _run_at("[::1]:6379", monkeypatch)


def _answer_as_another_server(listening: socket.socket, with_http: bool) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            if with_http:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.close()
            else:
                _SILENT.append(connection)


_SILENT: list[socket.socket] = []


@pytest.mark.parametrize("with_http", [False, True])
def test_an_address_where_something_other_than_ray_answers_is_one_line(
    with_http: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(parallel, "_STATUS_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        threading.Thread(target=_answer_as_another_server, args=(listening, with_http), daemon=True).start()
        space = minilm_space()
        with pytest.raises(ComponentFailed, match=rf"no Ray cluster at {address} \(.*did not answer as Ray") as failed:
            list(RayRunner(address).run(EmbedWork(space), text_batches(_TEXTS)))
    assert failed.value.exit_code == 3 and "\n" not in str(failed.value)


def test_auto_without_a_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ComponentFailed, match="no Ray cluster at auto ") as failed:
        check_cluster("auto")
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("address", ["head", ":6379", "head:0", "head:99999", "head:port", "ray://head:10001"])
def test_an_address_that_is_none_is_one_line(address: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(PalimpsestError, match="must be HOST:PORT or auto") as failed:
        _run_at(address, monkeypatch)
    assert failed.value.exit_code == 2
