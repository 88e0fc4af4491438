"""A real Ray cluster of two nodes on this machine."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palimpsest.core import parallel
from palimpsest.core.errors import ComponentFailed
from palimpsest.core.parallel import CPUS_PER_WORKER, QUEUED_PER_WORKER, Batch, BatchWork, RayRunner
from palimpsest.memories.embedders import embedding_store, minilm_space
from palimpsest.memories.text_batches import DistributedEmbedder
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.home import Home
from tests.small_corpus import write_chats

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Counted:
    """Work that writes the key of each batch it computes into a file."""

    work: Any
    file: Path

    @property
    def name(self) -> str:
        return self.work.name

    def load(self) -> Callable[[Sequence[Any]], Any]:
        compute = self.work.load()

        def counted(items: Sequence[Any]) -> Any:
            from palimpsest.core.ids import content_id

            result = compute(items)
            with self.file.open("a") as file:
                file.write(content_id(self.work.name, *map(str, items)) + "\n")
            return result

        return counted

    def probe(self, compute: Callable[[Sequence[Any]], Any]) -> str:
        return self.work.probe(self.work.load())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that computes nothing; tests add nodes."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    monkeypatch.setenv("PALIMPSEST_BATCHES", "ray")
    monkeypatch.setenv("RAY_ADDRESS", started.address)
    yield started
    ray.shutdown()
    started.shutdown()


def _build(home: Home, corpus: Path) -> str:
    home.create()
    return run_without_dagster(home, make_plan(home, [corpus])).manifest.digest


def test_a_build_of_which_a_node_is_killed_equals_one_in_a_single_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = ("Heron", "Otter", "Badger", "Punt", "Annex")
    texts = [
        f"The deadline of project {names[i % 5]} {i % 40} is day {i}" + ", as we said" * (i % 30) for i in range(400)
    ]
    turns = [
        (f"s{i}", "ann", "Ann", text, f"2026-02-{1 + i // 20:02}T09:{i % 20:02}:00Z") for i, text in enumerate(texts)
    ]
    corpus = write_chats(tmp_path / "corpus", turns)
    victims = [cluster.add_node(num_cpus=CPUS_PER_WORKER) for _ in range(2)]
    delivered: dict[str, int] = {}
    run = RayRunner.run

    def killing(self: RayRunner, work: BatchWork[Any, Any], batches: Sequence[Batch[Any]]) -> Iterator[Any]:
        for found in run(self, Counted(work, tmp_path / work.name), batches):
            delivered[work.name] = delivered.get(work.name, 0) + 1
            if work.name == "embed" and delivered["embed"] == 8:
                cluster.remove_node(victims.pop(), allow_graceful=False)
            yield found

    monkeypatch.setattr(RayRunner, "run", killing)
    on_ray = Home(tmp_path / "ray")
    found = _build(on_ray, corpus)
    monkeypatch.setenv("PALIMPSEST_BATCHES", "local")
    here = Home(tmp_path / "here")
    assert _build(here, corpus) == found and not victims[1:]
    hashes = sorted(embedding_store(here).known())
    assert np.array_equal(embedding_store(on_ray).vectors(hashes), embedding_store(here).vectors(hashes))
    for name, count in delivered.items():
        computed = Counter((tmp_path / name).read_text().split())
        again = sum(computed.values()) - len(computed)
        print(f"{name}: {count} batches, {again} computed twice")
        assert count == len(computed) > parallel.MIN_BATCHES
        assert again <= QUEUED_PER_WORKER * 2
    assert "label" in delivered


def test_a_node_with_other_bits_is_refused_by_name_and_where_all_are_the_build_ends(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")  # other kernels: the vectors differ in their last bits
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    other = cluster.add_node(num_cpus=CPUS_PER_WORKER)
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    texts = [f"Line {i} of the log." for i in range(300)]
    embedder = DistributedEmbedder(minilm_space(), RayRunner(os.environ["RAY_ADDRESS"]))
    with pytest.raises(ComponentFailed, match="every Ray node is refused for embed") as failed:
        embedder.encode(texts)
    assert failed.value.exit_code == 3 and "\n" not in str(failed.value)
    capfd.readouterr()
    cluster.add_node(num_cpus=CPUS_PER_WORKER)
    vectors = embedder.encode(texts)
    assert f"({other.node_id[:8]}) is refused" in capfd.readouterr().err
    from palimpsest.memories.embed import load_embedder

    assert np.array_equal(vectors, load_embedder().encode(texts))
