import json

import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.lm.client import Ledger, LmAnswer
from palimpsest.relations.labelers.lm_labeler import check_answers
from palimpsest.store.home import Home
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from tests.command import last_json, run
from tests.eval.home import rows
from tests.small_corpus import write_chats

READ = {"rule": "lm"}
FAILED = {"rule": "abstain", "failed": "parse"}
OPEN = {"rule": "unpaid", "why": "no answer"}
ORDERS = {"rule": "abstain", "why": "the text gives orders"}


def relations(*evidence, labeler="dspy"):
    return rows(
        "relations",
        *(
            {
                "relation_id": f"r{i}",
                "newer_id": f"n{i}",
                "older_id": f"o{i}",
                "labeler": labeler,
                "evidence": json.dumps(e),
            }
            for i, e in enumerate(evidence)
        ),
    )


def test_mostly_unreadable_answers_stop_the_build_and_only_those_are_requested_again(tmp_path):
    home = Home(tmp_path)
    ledger = Ledger(home.lm_ledger)
    for i in range(3):
        ledger.put(f"k{i}", f"n{i}", f"o{i}", "p", "m", LmAnswer("x", 1, 1, 0.0))
    with pytest.raises(ComponentFailed, match="2 of 3 answers") as e:
        check_answers(relations(READ, FAILED, FAILED), home)
    assert e.value.exit_code == 3 and "PALIMPSEST_LABELER=offline" in str(e.value)
    assert [ledger.get(f"k{i}") is None for i in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    "table",
    [
        relations(READ, FAILED), relations(FAILED, READ, READ, OPEN, OPEN), relations(OPEN, OPEN, ORDERS), relations(),
        relations(FAILED, labeler="offline"),
    ],
    ids=["half", "few", "not sent", "none", "no model"],
)  # fmt: skip
def test_a_build_goes_on_where_most_answers_are_readable_or_nothing_was_answered(tmp_path, table):
    check_answers(table, Home(tmp_path))
    assert not Home(tmp_path).lm_ledger.exists()


@pytest.mark.lm
def test_a_server_that_answers_nonsense_ends_with_exit_3_and_what_was_published_stays(tmp_path):
    home, corpus = tmp_path / "h", write_chats(tmp_path / "c")
    with FakeLMServer({}, fault_share=1.0, faults=("garbage",)) as server:
        env = {"PALIMPSEST_LABELER": "dspy", "PALIMPSEST_LM": f"stand-in@{server.url}"}
        done = run("build", "--home", home, "--corpus", corpus, **env)
        assert done.returncode == 3 and "cannot be read" in done.stderr.splitlines()[-1]
        assert not (home / "published.json").exists()
        answered = server.counts.answered
        server.fault_share = 0.0
        again = last_json(run("build", "--home", home, "--json", **env))
        assert again["published"] and server.counts.answered == 2 * answered, "all are sent again"
