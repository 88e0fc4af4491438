"""`palimpsest logs` on a home that was built, judged, sent to and deleted from."""

import json

import pytest

from palimpsest.store.event_log import log_files
from tests.command import last_json, process, run
from tests.small_corpus import write_chats


@pytest.fixture(scope="module")
def home(tmp_path_factory, embed_corpus):
    base = tmp_path_factory.mktemp("logged")
    corpus = write_chats(base / "corpus")
    home = embed_corpus(base / "home", corpus)
    assert run("build", "--corpus", corpus, "--home", home).returncode == 0
    assert run("remember", "The spare key hangs behind the clock.", "--user", "ann", "--home", home).returncode == 0
    assert run("delete", "--user", "bob", "--home", home).returncode == 0
    return home


def test_a_build_writes_its_stages_its_gate_and_its_end_under_one_run(home):
    events = last_json(run("logs", "--home", home, "--json"))["events"]
    end = next(e for e in events if e["event"] == "build_finished")
    of_run = last_json(run("logs", "--run", end["run_id"], "--home", home, "--json"))["events"]
    names = [e["event"] for e in of_run]
    assert (
        names[0] == "build_started"
        and names[-1] == "build_finished"
        and {"gate_finished", "publish_finished"} < {*names}
    )
    stages = [e["fields"]["stage"] for e in of_run if e["event"] == "stage_finished"]
    assert {"documents", "relations", "versions", "index"} < {*stages}
    assert end["build_id"] == "000001" and end["fields"]["memories"] == 5 and end["fields"]["published"] == 1
    later = events[len(of_run) :]
    assert (later[0]["event"], later[-1]["event"]) == ("inbox_received", "delete_finished")
    assert len({e["run_id"] for e in later[1:]}) == 1, "what a delete makes again is of its run"


def test_the_log_has_no_text_no_user_and_no_id_of_a_memory(home):
    found = "".join(path.read_text() for path in log_files(home)).lower()
    for word in ("heron", "locker", "spare key", "bob", '"ann"', "turns.jsonl", "s1"):
        assert word not in found, word
    delete = next(json.loads(line) for line in found.splitlines() if "delete_finished" in line)
    assert delete["fields"]["selectors"] == "user" and delete["fields"]["memories"] == 2


def test_options_select_and_text_is_one_line_an_event(home):
    done = process("logs", "-n", "2", "--since", "1h", "--home", home)
    assert done.returncode == 0 and len(done.stdout.strip().splitlines()) == 2
    assert done.stdout.splitlines()[-1].split()[2:4] == ["info", "delete_finished"]
    assert "no events" in run("logs", "--level", "error", "--home", home).stdout
    assert "no events" in run("logs", "--since", "2999-01-01", "--home", home).stdout
    wrong = run("logs", "--since", "soon", "--home", home)
    assert wrong.returncode == 2 and "write 30m, 12h, 7d" in wrong.stderr


def test_a_build_that_fails_writes_the_type_of_the_error(tmp_path, home):
    other = tmp_path / "home"
    other.mkdir()
    assert run("build", "--corpus", tmp_path / "missing", "--home", other).returncode == 2
    (event,) = last_json(run("logs", "--level", "error", "--home", other, "--json"))["events"]
    assert (event["event"], event["fields"]["error"]) == ("build_failed", "PalimpsestError")


def test_a_deleted_collection_is_in_no_line(home):
    assert run("delete", "--collection", "chats", "--home", home).returncode == 0
    assert "chats" not in "".join(path.read_text() for path in log_files(home))
    assert last_json(run("logs", "--home", home, "--json"))["events"][-1]["event"] == "delete_finished"
