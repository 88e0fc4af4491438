"""Where a build is, and what of its time is left, from the records of its stages."""

import pytest

from palimpsest.core.files import progress, progress_of
from palimpsest.pipeline.build_clock import BuildClock
from palimpsest.pipeline.stages import collection_stages
from palimpsest.store.builds import staged
from palimpsest.store.home import Home
from palimpsest.store.manifest import StageRecord

STAGES = [stage.name for stage in collection_stages()]


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def finish(home: Home, collection: str, **seconds: float) -> None:
    """Records stages of a collection as finished, each with its seconds."""
    for stage, of_stage in seconds.items():
        (staged(home).path / collection).mkdir(parents=True, exist_ok=True)
        staged(home).write_record(collection, stage, StageRecord("", "", {}, seconds=of_stage))


def test_no_time_is_left_to_say_before_anything_is_known(home):
    clock = BuildClock(home, {"a": 100, "b": 300})
    assert clock.collection_line("a") == "collection a (1 of 2)"
    assert clock.place("a", "documents", 0.0, 0.0) == f"collection 1 of 2, stage 1 of {len(STAGES)}"


def test_later_collections_take_what_earlier_ones_took_by_their_bytes(home):
    finish(home, "a", **dict.fromkeys(STAGES, 10.0))
    clock = BuildClock(home, {"a": 100, "b": 50, "c": 50})
    total = 10 * len(STAGES)
    assert clock.collection_line("b").startswith("collection b (2 of 3), about")
    assert clock._left("b", "", 0.0, 0.0) == pytest.approx(total)
    finish(home, "b", **dict.fromkeys(STAGES[:-1], 5.0))
    # half of the last stage of b, which has taken 4 s, and c, as fast as a and b
    assert clock._left("b", STAGES[-1], 0.5, 4.0) == pytest.approx(4 + (total / 2 - 5) + (10 + 8) * 50 / 150)


def test_the_stage_that_runs_says_how_fast_the_others_will_be(home):
    clock = BuildClock(home, {"a": 100})
    # half of the embeddings took 8 s; all are 16 of 100 parts of a build, of which relations are 72
    left = clock._left("a", "embeddings", 0.5, 8.0)
    assert left is not None and 8 + 72 <= left <= 8 + 84


def test_progress_shows_the_place_instead_of_its_own_time(capsys, monkeypatch):
    monkeypatch.setattr("palimpsest.core.files._LINE_EVERY_S", 0.0)
    with progress_of(lambda share, seconds: f"{share:.0%} of a build"), progress("embed", 4, "texts") as advance:
        advance(1)
    assert capsys.readouterr().err.rstrip().endswith("25% of a build")
