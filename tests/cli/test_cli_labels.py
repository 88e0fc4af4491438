"""Labels through the command line: review, undo, confirm; an LM's labels, its budget, and what a delete leaves."""

import json
from pathlib import Path

import pytest

from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from tests.command import last_json, run
from tests.small_corpus import write_chats

OLD, NEW = (
    "The deadline of project Heron is 12 March.",
    "The deadline of project Heron is now 20 April instead of 12 March.",
)


def latest(home: Path, text: str) -> set[str]:
    found = run("query", text, "--home", home, "--user", "ann", "--json")
    return {m["text"] for m in last_json(found)["memories"]}


@pytest.mark.slow
def test_an_undone_update_comes_back_after_a_rebuild_and_becomes_a_labelled_pair(tmp_path):
    home, corpus = tmp_path / "h", write_chats(tmp_path / "c")
    assert last_json(run("build", "--home", home, "--corpus", corpus, "--json"))["relations"]["UPDATE"] == 1
    found = last_json(run("query", "deadline", "--home", home, "--user", "ann", "--history", "--json"))["memories"]
    ids = [m["memory_id"] for m in found if m["text"] in (OLD, NEW)]
    done = last_json(run("undo", "--pair", *ids, "--home", home, "--json"))
    assert (done["was"], done["label"], done["stays_retired"]) == ("UPDATE", "NONE", None)
    assert OLD not in latest(home, "deadline of project Heron"), "from the next build on"
    built = last_json(run("build", "--home", home, "--json"))
    assert built["relations"]["UPDATE"] == 0 and built["work"]["embeddings"] == 0
    assert {OLD, NEW} <= latest(home, "deadline of project Heron")
    pairs = tmp_path / "pairs.jsonl"
    assert last_json(run("review", "--home", home, "--export", pairs, "--json"))["exported"] == 1
    row = json.loads(pairs.read_text())
    assert (row["older"], row["newer"], row["label"]) == (OLD, NEW, "NONE") and row["newer_date"] > row["older_date"]
    run("confirm", done["relation_id"], "--as", "UPDATE", "--home", home)
    assert last_json(run("build", "--home", home, "--json"))["relations"]["UPDATE"] == 1
    assert last_json(run("build", "--home", home, "--json"))["changed"] == []
    assert run("verify", "--home", home).returncode == 0
    for wrong in (["undo", "nonesuch"], ["confirm"], ["undo", ids[0]], ["undo", "--pair", ids[0], ids[0]]):
        refused = run(*wrong, "--home", home)
        assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.lm
@pytest.mark.slow
def test_a_build_by_an_lm_is_paid_once_stops_at_its_budget_and_leaves_nothing_after_a_delete(tmp_path):
    home, corpus = tmp_path / "h", write_chats(tmp_path / "c")
    with FakeLMServer({(OLD, NEW): "UPDATE"}) as server:
        env = {
            "PALIMPSEST_LABELER": "dspy",
            "PALIMPSEST_LM": f"stand-in@{server.url}",
            "PALIMPSEST_LM_PRICE": "1,1",
            "PALIMPSEST_LM_KEY": "sk-canary-key",
        }
        first = run("build", "--home", home, "--corpus", corpus, "--max-cost", 0, "--json", **env)
        assert first.returncode == 0, first.stderr
        assert last_json(first)["work"]["lm_calls"] == 0 and last_json(first)["relations"]["UPDATE"] == 0
        second = last_json(run("build", "--home", home, "--json", **env))
        calls = second["work"]["lm_calls"]
        assert calls == server.counts.answered > 0 and second["relations"]["UPDATE"] == 1
        third = last_json(run("build", "--home", home, "--json", **env))
        assert third["changed"] == [] and server.counts.answered == calls
        offline = last_json(run("build", "--home", home, "--json"))
        back = last_json(run("build", "--home", home, "--json", **env))
        assert offline["work"]["lm_calls"] == back["work"]["lm_calls"] == 0 and server.counts.answered == calls
        assert back["digest"] == second["digest"]
        assert server.counts.keys == {"Bearer sk-canary-key"}
    assert not any(b"sk-canary-key" in p.read_bytes() for p in home.rglob("*") if p.is_file())
    (corpus / "chats/turns.jsonl").write_text("")
    assert run("delete", "--user", "ann", "--home", home).returncode == 0
    assert not any(b"20 April" in p.read_bytes() for p in home.rglob("*") if p.is_file())


@pytest.mark.lm
def test_a_setting_that_is_wrong_is_one_line(tmp_path):
    corpus = write_chats(tmp_path / "c")
    for env, message in [
        ({"PALIMPSEST_LABELER": "magic"}, "PALIMPSEST_LABELER"),
        ({"PALIMPSEST_LABELER": "dspy"}, "PALIMPSEST_LM"),
        ({"PALIMPSEST_LABELER": "cascade", "PALIMPSEST_LM": "m@ftp://x"}, "MODEL@URL"),
    ]:
        done = run("build", "--home", tmp_path / "h", "--corpus", corpus, **env)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1
