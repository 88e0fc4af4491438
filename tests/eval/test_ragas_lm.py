"""RAGAS's metrics by a language model, over real HTTP, with a scripted server in the model's place."""

import json
import re

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import LmSettings
from palimpsest_eval.ragas.judge_trial import try_judge
from palimpsest_eval.ragas.ragas_check import RagasSample
from palimpsest_eval.ragas.ragas_lm import judge_contexts, judge_settings
from palimpsest_eval.runs.suite_runs import RagasOptions, measure
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from tests.command import run
from tests.eval.judged import QUESTIONS, write_lines
from tests.small_corpus import write_chats

pytestmark = pytest.mark.lm


def reply(prompt: str) -> str:
    """A model that finds a context useful where it says GOOD, and supports what is not called false."""
    if prompt.startswith("Answer the question"):
        return "The launch is on Friday. A false thing."
    if "Generate a question for the given answer" in prompt:
        return json.dumps({"question": "When is q1?", "noncommittal": int("not known" in prompt)})
    payload = json.loads(re.search(r"same with the following input\ninput: (.*)\nOutput: $", prompt, re.DOTALL)[1])
    if "verify if the context was useful" in prompt:
        return "```json\n" + json.dumps({"reason": "r", "verdict": int("GOOD" in payload["context"])}) + "\n```"
    if "statements" in payload:
        verdicts = [{"statement": s, "reason": "r", "verdict": int("false" not in s)} for s in payload["statements"]]
        return json.dumps({"statements": verdicts})
    if "context" in payload:
        classifications = [
            {"statement": s, "reason": "r", "attributed": int(s in payload["context"])}
            for s in payload["answer"].split("\n")
        ]
        return json.dumps({"classifications": classifications})
    return json.dumps({"statements": [s for s in payload["answer"].split(". ") if s]})


def ragas_item(name="q1", contexts=("bad", "GOOD one", "GOOD two"), reference="a\nb", packed="a c"):
    return RagasSample(name, f"When is {name}?", reference, ("x",), ("y", "x"), tuple(contexts), packed)


def judge(server, tmp_path, items, **more):
    fast = {"longest_wait_s": 0.05, "timeout_s": 0.5, "attempts": 3, "price_in": 1.0, "price_out": 2.0}
    options = {k: more.pop(k) for k in ("max_cost", "questions") if k in more}
    ledger = Ledger(tmp_path / "l.sqlite")
    return judge_contexts(items, LmSettings("stand-in", server.url, **(fast | more)), ledger, **options)


def test_the_metrics_are_those_worked_out_by_hand_every_call_is_counted_and_no_context_is_zero(tmp_path):
    with FakeLMServer({}, reply=reply) as server:
        got = judge(server, tmp_path, [ragas_item()])
        # Precision: of three contexts the second and third help: (1/2 + 2/3) / 2. Recall: of a and b, a is there.
        # Faithfulness: of two statements one is false. Relevancy: the question that is written is the one given.
        assert got.means == pytest.approx(
            {"context_precision": 7 / 12, "context_recall": 0.5, "faithfulness": 0.5, "answer_relevancy": 1.0}, abs=1e-6
        )
        assert got.calls == server.counts.answered == 3 + 1 + 3 + 1
        assert (got.tokens_in, got.tokens_out) == (server.counts.tokens_in, server.counts.tokens_out)
        assert got.cost == pytest.approx((got.tokens_in + 2 * got.tokens_out) / 1e6, abs=1e-6)
        again = judge(server, tmp_path, [ragas_item()])
        assert again.means == got.means and (again.calls, again.known, again.cost) == (0, 8, 0.0)
        assert server.counts.answered == 8, "what was answered is not paid twice"
    assert "8 calls" in got.text() and f"cost {got.cost:.4f}" in got.text()
    with FakeLMServer({}, reply=reply) as server:
        got = judge(server, tmp_path, [ragas_item(contexts=(), packed="")])
        assert got.means == {"context_precision": 0.0, "context_recall": 0.0} and server.counts.requests == 0


def test_a_budget_stops_before_it_is_passed_and_reports_what_was_left_out(tmp_path):
    items = [ragas_item(f"q{i:02}") for i in range(12)]
    with FakeLMServer({}, reply=reply) as server:
        got = judge(server, tmp_path, items, max_cost=0.03, concurrency=3)
        assert 0 < got.cost <= 0.03 and 0 < got.unasked < 12
        assert got.calls == server.counts.answered and got.unanswered == 0
        rest = judge(server, tmp_path, items)
        assert rest.unasked == 0 and rest.known >= got.calls, "the next run asks for the rest only"
        assert rest.calls + got.calls == server.counts.answered
        assert judge(server, tmp_path / "other", items, max_cost=0.0).means == {}


def test_a_budget_without_a_model_or_a_price_is_refused_before_anything_is_measured(monkeypatch):
    assert judge_settings(None) is None
    with pytest.raises(PalimpsestError, match="set PALIMPSEST_LM=MODEL@URL"):
        judge_settings(1.0)
    monkeypatch.setenv("PALIMPSEST_LM", "m@http://127.0.0.1:1/v1")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_LM_PRICE"):
        judge_settings(1.0)
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", "1,2")
    assert judge_settings(1.0).price_out == 2.0


def test_unreadable_answers_and_a_dead_server_are_errors_and_never_numbers(tmp_path):
    with FakeLMServer({}, reply=lambda prompt: reply(prompt).replace('": 1', '": 7')) as server:
        got = judge(server, tmp_path, [ragas_item()])
        assert set(got.means) == {"answer_relevancy"} and got.unreadable == 3
    with FakeLMServer({}, fault_share=1.0, faults=("garbage",), reply=reply) as server:
        got = judge(server, tmp_path / "b", [ragas_item()])
        assert got.means == {} and got.unreadable == 4 and "nothing could be read" in got.text()
    with FakeLMServer({}, fault_share=1.0, faults=("500",), reply=reply) as server:
        got = judge(server, tmp_path / "c", [ragas_item(f"q{i:02}") for i in range(30)], attempts=1, concurrency=2)
        assert got.means == {} and got.unanswered == 30 and got.calls == 0
        assert server.counts.requests < 15, "a server that is down gets no request for every question"


def test_a_sample_is_the_same_whatever_the_order(tmp_path):
    items = [ragas_item(f"q{i:02}") for i in range(20)]
    with FakeLMServer({}, reply=reply) as server:
        one = judge(server, tmp_path, items, questions=4)
        two = judge(server, tmp_path, items[::-1], questions=4)
    assert one.questions == 4 and two.calls == 0 and two.means == one.means


def test_suite_prints_both_ragas_figures_next_to_its_own(tmp_path, monkeypatch, capsys):
    write_chats(tmp_path / "data/corpora")
    golden = write_lines(tmp_path / "data/golden/chats.jsonl", QUESTIONS)
    refused = run("suite", golden, "--max-cost", 1, cwd=tmp_path)
    assert refused.returncode == 2 and "--ragas" in refused.stderr
    monkeypatch.chdir(tmp_path)
    plain = measure(golden, None, "auto", 1200, None, ragas=RagasOptions(2)).ragas
    assert plain["ids"]["largest_difference"] < 1e-9 and plain["ids"]["queries"] == 4 and "lm" not in plain
    with FakeLMServer({}, reply=reply) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        monkeypatch.setenv("PALIMPSEST_LM_PRICE", "1,1")
        monkeypatch.setenv("PALIMPSEST_LM_KEY", "sk-canary")
        done = measure(golden, None, "auto", 1200, None, ragas=RagasOptions(2))
        figures = done.ragas
        assert figures["ids"] == plain["ids"] and figures["lm"]["questions"] == 2
        assert figures["lm"]["calls"] == server.counts.answered > 0 and figures["lm"]["cost"] > 0
        assert set(figures["lm"]["means"]) == {
            "context_precision",
            "context_recall",
            "faithfulness",
            "answer_relevancy",
        }
        assert server.counts.keys == {"Bearer sk-canary"}
    printed = done.text()
    assert "RAGAS by ids, 4 queries" in printed and "RAGAS by stand-in, 2 questions" in printed
    shown = capsys.readouterr()
    assert "sk-canary" not in printed + json.dumps(done.to_json()) + shown.out + shown.err


def test_a_trial_shows_every_prompt_with_its_answer_and_what_another_answer_prompt_changes(tmp_path):
    items = [ragas_item(), ragas_item("q2", contexts=(), packed="")]
    with FakeLMServer({}, reply=reply) as server:
        settings, ledger = LmSettings("stand-in", server.url), Ledger(tmp_path / "l.sqlite")
        trial = try_judge(items, settings, ledger, 5)
        first = trial.table().to_dicts()[0]
        assert (first["R@5"], first["context_recall"], first["faithfulness"]) == (1.0, 0.5, 0.5)
        assert trial.calls == len(trial.exchanges) == server.counts.answered == 8
        assert trial.disagreements()["query_id"].to_list() == ["q2", "q1"], "found, and nothing there to support it"
        assert trial.exchanges_table()["answer"].to_list().count("The launch is on Friday. A false thing.") == 1
        edited = try_judge(items, settings, ledger, 5, "Answer the question. {context} {question} {not a field}")
        assert edited.calls == 1, "the other prompts are in the ledger"
        means = {row["metric"]: (row["as_it_was"], row["edited"]) for row in trial.compare(edited).to_dicts()}
        assert means["faithfulness"] == (0.5, 0.5) and means["context_recall"] == (0.25, 0.25)
        with pytest.raises(PalimpsestError, match=r"\{question\} is required"):
            try_judge(items, settings, ledger, 5, "{context}")
