"""`palimpsest bench --profile`: stages and steps with budgets, and flame graphs."""

from palimpsest.store.home import Home
from palimpsest_eval.bench.measure_profile import STEP_BUDGETS, measure_profile
from tests.small_corpus import write_notes


def test_a_home_is_profiled_by_stage_and_step_and_not_changed(tmp_path):
    corpus = write_notes(tmp_path / "corpora", {"plan.md": "The launch is on Monday.", "pets.md": "I keep bees."})
    home = Home(tmp_path / "home")
    home.create()
    home.write_sources({"notes": corpus / "notes"})
    found = measure_profile(home, tmp_path / "profile")
    assert found.memories > 0 and found.queries > 0
    assert {"documents", "embeddings", "relations"} <= {part.name for part in found.stages}
    assert STEP_BUDGETS.keys() <= {part.name for part in found.steps}
    assert [part.figure for part in found.stages] == sorted((p.figure for p in found.stages), reverse=True)
    assert all("pyinstrument" in (tmp_path / "profile" / name).read_text() for name in ("build.html", "queries.html"))
    assert "flame graph" in found.text() and not list(home.builds.iterdir())
