import contextlib
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.neo4j_graph import loader
from palimpsest.neo4j_graph.graph_rows import GraphVectors
from palimpsest.neo4j_graph.loader import Source, drop_home, residue
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.neo4j_graph.writer import Writer
from palimpsest.query.request.types import Filters, Scope
from tests.neo4j_graph.made import MODEL, fresh_home, make, shown, vectors

ROOT = Path(__file__).resolve().parents[2]
_QUERY = (np.ones(384) / 384**0.5).astype(np.float32)


class Crash(BaseException):
    """Raised in place of a process that ends."""


def crash_after(batches: int, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Makes the next loads end before or just after a batch was committed."""
    seen = 0

    def ending(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **values: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == batches and when == "before":
                raise Crash
            done = real(*args, **values)
            if seen == batches:
                raise Crash
            return done

        return run

    for name in ("once", "publish"):
        monkeypatch.setattr(Writer, name, ending(getattr(Writer, name)))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    return make(folder, "000001", count=60, edited=(2,)), make(folder, "000002", count=66, edited=(3, 4))


def random_cuts(count: int) -> list[tuple[int, str, int]]:
    """Batches at which a load ends, before or after it was committed, and which of two builds it was of."""
    pick = random.Random(5)
    return [(pick.randint(1, 30), pick.choice(["before", "after"]), pick.randrange(2)) for _ in range(count)]


FEW_CUTS = [(2, "before", 1), (5, "after", 1), (9, "before", 0), (12, "after", 1), (3, "after", 0)]


@pytest.mark.parametrize(
    "cuts", [pytest.param(c, marks=pytest.mark.slow) for c in (FEW_CUTS, random_cuts(20))], ids=["few", "many"]
)
def test_a_load_that_ended_anywhere_is_finished_by_the_next_and_equals_one_that_never_did(graph, pair, cuts):
    first, second = pair
    whole = fresh_home()
    second.load(whole, graph)
    expected = shown(graph, whole)
    home = fresh_home()
    first.load(home, graph)
    before = shown(graph, home)
    for batches, when, which in cuts:
        with pytest.MonkeyPatch.context() as patch:
            crash_after(batches, patch, when)
            with contextlib.suppress(Crash):
                pair[which].load(home, graph)
        visible = shown(graph, home)
        assert visible in (before, expected)
        assert check_graph(graph, home) == []
    second.load(home, graph)
    assert shown(graph, home) == expected
    assert check_graph(graph, home) == []


@pytest.mark.parametrize("points", [(9,), pytest.param((3, 14, 20), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_full_reload_that_ended_anywhere_is_followed_by_a_load_of_another_build(graph, pair, points):
    first, second = pair
    whole = fresh_home()
    second.load(whole, graph)
    expected = shown(graph, whole)
    source = Source(lambda: first.tables, first.index)
    for batches in points:
        home = fresh_home()
        first.load(home, graph)
        with pytest.MonkeyPatch.context() as patch:
            crash_after(batches, patch, "after")
            with pytest.raises(Crash):
                loader.load_source(home, source, GraphVectors(vectors, MODEL), graph, full_reload=True)
        second.load(home, graph)
        assert shown(graph, home) == expected, batches
        assert check_graph(graph, home) == []


@pytest.mark.slow
def test_what_a_load_that_was_cut_short_wrote_goes_though_the_build_before_is_loaded_again(graph, pair, monkeypatch):
    first, second = pair
    home = fresh_home()
    first.load(home, graph)
    with monkeypatch.context() as patch:
        crash_after(8, patch, "after")
        with pytest.raises(Crash):
            second.load(home, graph)
    assert residue(graph, home, ["Note 65 "]) == ["Memory"]
    first.load(home, graph, keep_previous=False)
    assert residue(graph, home, ["Note 65 "]) == []
    assert check_graph(graph, home) == []


@pytest.mark.slow
def test_a_sweep_that_was_cut_short_is_finished_by_the_next_load_of_the_same_build(graph, pair, monkeypatch):
    first, second = pair
    home = fresh_home()
    second.load(home, graph)

    def cut(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(loader, "sweep", cut)
        with pytest.raises(Crash):
            first.load(home, graph, keep_previous=False)
    assert residue(graph, home, ["Note 65 "]) == ["Memory"]
    first.load(home, graph, keep_previous=False)
    assert residue(graph, home, ["Note 65 "]) == []
    assert first.load(home, graph).writes == 0


def test_of_two_loads_at_once_one_is_refused_and_nothing_is_mixed(graph, pair, monkeypatch):
    monkeypatch.setattr(loader, "LOCK_WAIT_S", 1.0)
    home, (first, second) = fresh_home(), pair
    inside, go_on = threading.Event(), threading.Event()
    real: Callable[..., Any] = loader.write_nodes

    def slow(*args: Any) -> Any:
        inside.set()
        go_on.wait(30)
        return real(*args)

    monkeypatch.setattr(loader, "write_nodes", slow)
    running = threading.Thread(target=lambda: first.load(home, graph))
    running.start()
    assert inside.wait(30)
    try:
        with pytest.raises(PalimpsestError, match="another load of this home is running"):
            second.load(home, graph)
    finally:
        go_on.set()
        running.join()
    assert check_graph(graph, home) == []
    second.load(home, graph)
    assert check_graph(graph, home) == []


@pytest.mark.slow
def test_readers_see_one_whole_build_during_a_full_reload_and_a_difference_load(graph, tmp_path):
    home = fresh_home()
    sizes = {"one": 120, "two": 130, "three": 130}
    made = {m: make(tmp_path, f"00000{i}", count=n, mark=m, users=("ann",)) for i, (m, n) in enumerate(sizes.items())}
    made["one"].load(home, graph)
    made["three"] = make(tmp_path, "000009", count=130, mark="two", users=("ann",), edited=(5,))
    seen: set[tuple[str, int]] = set()
    wrong: list[str] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                reader = Neo4jBackend(home, graph)
                scope = Scope("made", "ann")
                seeds = reader.seeds(scope, Filters(history=True), _QUERY, ("topic",), 1.0, 500)
                texts = {m.text.split()[5].strip(".") for m in reader.memories(scope, seeds.ids).values()}
                if len(texts) != 1:
                    wrong.append(f"{reader.build_id}: {texts}")
                seen.add((texts.pop(), len(seeds.ids)))
            except Exception as e:
                wrong.append(repr(e))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for r in readers:
        r.start()
    try:
        for name in ("two", "three"):
            made[name].load(home, graph)
    finally:
        stop.set()
        for r in readers:
            r.join()
    assert wrong == []
    assert seen <= {("one", 120), ("two", 130), ("two", 131)} and ("one", 120) in seen


@pytest.mark.slow
def test_a_reader_of_a_build_replaced_twice_fails_instead_of_reading_a_part(graph, tmp_path):
    home, scope = fresh_home(), Scope("made", "ann")
    builds = [make(tmp_path, f"00000{i}", mark=f"m{i}") for i in (1, 2, 3)]
    builds[0].load(home, graph)
    reader = Neo4jBackend(home, graph)
    builds[1].load(home, graph)
    assert len(reader.seeds(scope, Filters(), _QUERY, (), 0, 50).ids) == 20
    builds[2].load(home, graph)
    with pytest.raises(ComponentFailed, match="reopen the reader"):
        reader.memories(scope, reader.seeds(scope, Filters(), _QUERY, (), 0, 50).ids)


@pytest.mark.slow
def test_a_reader_of_a_home_that_was_erased_and_loaded_again_fails_though_numbers_begin_again(graph, tmp_path):
    home, scope = fresh_home(), Scope("made", "ann")
    make(tmp_path, "000001", mark="one").load(home, graph)
    reader = Neo4jBackend(home, graph)
    reader.seeds(scope, Filters(), _QUERY, (), 0, 50)
    drop_home(graph, home)
    make(tmp_path, "000002", count=30, mark="two").load(home, graph)
    with pytest.raises(ComponentFailed, match="reopen the reader"):
        reader.memories(scope, reader.seeds(scope, Filters(), _QUERY, ("two",), 1.0, 50).ids)
    later = reader.renewed()
    assert later.build_id == "000002" and len(later.seeds(scope, Filters(), _QUERY, (), 0, 50).ids) == 15
