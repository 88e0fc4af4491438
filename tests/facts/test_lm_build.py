"""A build whose collection lets a language model read facts."""

import json

import polars as pl
import pytest

from palimpsest.pipeline.estimate import dry_run
from palimpsest.pipeline.finish import publish_build, stage_build
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from tests.small_corpus import TURNS, write_chats


@pytest.mark.lm
def test_a_build_pays_for_each_memory_once_and_a_dry_run_counts_the_calls(tmp_path, shared_vectors, monkeypatch):
    def reply(prompt: str) -> str:
        text = prompt.partition("[[ ## text ## ]]\n")[2].partition("\n\n[[ ##")[0]
        said = [{"source": "I", "target": text.split()[-1], "type": "talk_about", "fact": text}]
        return f"[[ ## entities ## ]]\n[]\n\n[[ ## relationships ## ]]\n{json.dumps(said)}\n\n[[ ## completed ## ]]"

    corpus, home = write_chats(tmp_path / "corpus", TURNS[:3]), Home(tmp_path / "home", shared_vectors)
    config = next(corpus.rglob("collection.yaml"))
    config.write_text(config.read_text() + "facts: both\n")
    with FakeLMServer({}, reply=reply) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        monkeypatch.setenv("PALIMPSEST_LM_PRICE", "1,2")
        expected = dry_run(home, [corpus], None)
        assert expected.counts["lm_calls"] == expected.counts["memories"] > 0 and expected.cost > 0
        stage_build(home, make_plan(home, [corpus]))
        publish_build(home)
        facts = published(home).tables(("clause_facts", "speakers"))
        by_lm = facts["clause_facts"].filter(pl.col("extractor") == "lm")
        calls = server.counts.requests
        assert calls == by_lm["memory_id"].n_unique() == expected.counts["lm_calls"] and facts["speakers"].height
        assert dry_run(home, [write_chats(tmp_path / "corpus", TURNS[:4])], None).counts["lm_calls"] == 0
