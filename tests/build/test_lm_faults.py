"""Faults of a language model in each step that asks one: retried and answered, or left open and shown.

Each fault meets each step over real HTTP, with a scripted server in the model's place.
"""

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.lm.client import Ledger
from palimpsest.pipeline.build_warnings import collection_warnings
from palimpsest.pipeline.plan import stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import collection_stages
from palimpsest.store.builds import staged
from palimpsest.store.home import Home
from palimpsest_eval.testing.fake_lm_server import FakeLMServer, Fault, program_answer, prompt_field
from palimpsest_eval.testing.fake_programs import reflection_answer, turns_of
from tests.consolidation.test_lm_findings import NOTES
from tests.small_corpus import build_home, built_notes, copy_built, write_chats

pytestmark = pytest.mark.lm
TURNS = [
    ("s1", "ann", "Ann", "The deadline of project Heron is 12 March.", "2026-02-01T09:00:00Z"),
    ("s2", "ann", "Ann", "The deadline of project Heron is now 20 April instead of 12 March.", "2026-03-01T09:00:00Z"),
    ("s3", "ann", "Ann", "The office of project Heron is in Lisbon.", "2026-03-02T09:00:00Z"),
]
MOON = "The moon is made of green cheese."
"""What an answer to another question quotes."""


def fields(**values: object) -> str:
    """Returns an answer in the form of DSPy's ChatAdapter."""
    return program_answer(values, as_json=False)


def label_answer(prompt: str) -> str:
    if numbered := re.findall(r"^\[(\d+)\] .*?(\S+)$", prompt_field(prompt, "older"), re.MULTILINE):
        newer = prompt_field(prompt, "newer")
        answer = {"newer_quote": newer, "label": "EXTEND", "confidence": 0.9, "conflict": "none"}
        return fields(relations=[{"number": int(n), "older_quote": word} | answer for n, word in numbered])
    older, newer = ("MOON", MOON) if not prompt else (prompt_field(prompt, "older"), prompt_field(prompt, "newer"))
    return fields(older_quote=older, newer_quote=newer, label="EXTEND", confidence="0.9", conflict="none")


def formed_answer(prompt: str) -> str:
    turns = turns_of(prompt) if prompt else [(1, "Ann", MOON)]
    return reflection_answer({"facts": [{"statement": t, "source_turn": n, "quote": t} for n, _, t in turns]})


def facts_answer(prompt: str) -> str:
    text = prompt_field(prompt, "text") if prompt else MOON
    said = [{"source": "I", "target": text.split()[-1], "type": "talk_about", "fact": text}]
    return fields(entities=[], relationships=said)


def findings_answer(prompt: str) -> str:
    lines = re.findall(r"^\[(m\d+)\] (.*)$", prompt, re.MULTILINE) if prompt else [("m8", ""), ("m9", "")]
    names = [name for name, _ in lines][:2]
    said = "The bakery sells bread." if prompt else MOON
    return fields(contradictions=[], connections=[{"memories": names, "description": said}], notes=[])


@dataclass(frozen=True)
class Step:
    """A step that asks a model: its stage, what sets it, and the right answer; to no prompt, that of another one."""

    stage: str
    answer: Callable[[str], str]
    environment: dict[str, str]
    setting: tuple[str, str] | tuple[()] = ()


STEPS = {
    "labels": Step("relations", label_answer, {"PALIMPSEST_LABELER": "dspy"}),
    "formation": Step("notes", formed_answer, {}, ("unit: turn", "form: [turns, reflection]\nreflection: lm")),
    "facts": Step("entities", facts_answer, {}, ("unit: turn", "unit: turn\nfacts: lm")),
    "consolidation": Step("", findings_answer, {}),
}
RETRIED: tuple[Fault, ...] = ("429", "500", "timeout", "cut", "html")
"""Faults of the way to the model: a second request is answered."""
REPEATED: tuple[Fault, ...] = ("context", "refusal", "garbage", "length")
"""What a server says to each request."""
ANSWERS: dict[str, Callable[[str], str]] = {
    "empty": lambda right: "",
    "truncated": lambda right: right[: len(right) // 2],
    "wrong labels": lambda right: right.replace("EXTEND", "PERHAPS")
    .replace("]]\n[", "]]\n[1, ")
    .replace(" ##", "s ##"),
    "another question": lambda right: right,
}
"""Faults of what the model says, as a change of the right answer."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns homes that were built without a model: one of a chat, one of notes that consolidation reads."""
    chat, notes = tmp_path_factory.mktemp("chat"), tmp_path_factory.mktemp("notes")
    build_home(Home(chat / "home"), write_chats(chat / "corpus", TURNS))
    built_notes(notes, None, NOTES, user_id="u0", consolidation="{read_by: both}")
    return {"chats": chat, "notes": notes}


@dataclass
class Outcome:
    """What came of a step: its failure, what is shown of it, and how many answers the ledger has."""

    failed: str
    shown: list[str]
    paid: int


def run_step(home: Home, corpus: Path, step: Step, max_cost: float | None = None) -> Outcome:
    config = next(corpus.rglob("collection.yaml"))
    if step.setting and step.setting[1] not in config.read_text():
        config.write_text(config.read_text().replace(*step.setting))
    failed, shown = "", list[str]()
    try:
        if not step.stage:
            unread = consolidate(home).unread
            shown = [f"unread: {unread}"] if unread else []
        else:
            context = stage_context(home, "chats", config.parent, max_cost)
            for stage in collection_stages():
                run_stage(context, stage.name)
                if stage.name == step.stage:
                    break
            shown = [str(w) for w in collection_warnings(home, staged(home), "chats")]
    except ComponentFailed as e:
        failed = str(e)
    with closing(Ledger(home.lm_ledger)) as ledger:
        return Outcome(failed, shown, ledger.totals().calls)


@pytest.fixture
def prepared(built, tmp_path, monkeypatch, name) -> tuple[Home, Path]:
    monkeypatch.setattr("palimpsest.lm.client._FIRST_WAIT_S", 0.005)
    monkeypatch.setenv("PALIMPSEST_LM_TIMEOUT", "0.3")
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", "1,2")
    return copy_built(built["chats" if STEPS[name].stage else "notes"], tmp_path)


def serve(fault: str, step: Step, **more: float) -> FakeLMServer:
    if fault in (*RETRIED, *REPEATED):
        limit = {"faulty_attempts": 1} if fault in RETRIED else {}
        return FakeLMServer({}, reply=step.answer, fault_share=1.0, faults=(fault,), slow_s=0.4, **limit, **more)
    change, is_other = ANSWERS[fault], fault == "another question"
    return FakeLMServer({}, reply=lambda prompt: change(step.answer("" if is_other else prompt)))


@pytest.mark.parametrize("fault", [*RETRIED, *REPEATED, *ANSWERS])
@pytest.mark.parametrize("name", STEPS)
def test_a_fault_is_retried_and_answered_or_left_open_and_shown(prepared, monkeypatch, name, fault):
    step, (home, corpus) = STEPS[name], prepared
    for variable, value in step.environment.items():
        monkeypatch.setenv(variable, value)
    with serve(fault, step) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        done = run_step(home, corpus, step)
        prompts = len(server.counts.pairs)
        assert prompts
    if fault in RETRIED:
        assert done == Outcome("", [], prompts)
    else:
        assert (done.failed or done.shown) and done.paid <= prompts


@pytest.mark.parametrize("fault", ["prose", *ANSWERS])
@pytest.mark.parametrize("name", ["formation", "facts"])
def test_one_bad_answer_among_good_ones_is_shown_and_the_others_count(prepared, monkeypatch, name, fault):
    step, (home, corpus) = STEPS[name], prepared
    change, bad = ANSWERS.get(fault, lambda right: "I would rather talk about soup."), set[str]()

    def reply(prompt: str) -> str:
        if not bad:
            bad.add(prompt)
        is_bad = prompt in bad
        right = step.answer("" if is_bad and fault == "another question" else prompt)
        return change(right) if is_bad else right

    with FakeLMServer({}, reply=reply) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        monkeypatch.setenv("PALIMPSEST_LM_CONCURRENCY", "1")
        done = run_step(home, corpus, step)
        assert len(server.counts.pairs) == server.counts.answered == done.paid > 2
    assert not done.failed and len(done.shown) == 1 and " to 1 " in done.shown[0]


@pytest.mark.parametrize("name", ["labels", "formation", "facts"])
def test_calls_that_were_limited_are_made_by_the_next_build_and_none_is_made_beyond_the_ceiling(
    prepared, monkeypatch, name
):
    step, (home, corpus) = STEPS[name], prepared
    for variable, value in (step.environment | {"PALIMPSEST_LM_ATTEMPTS": "1"}).items():
        monkeypatch.setenv(variable, value)
    with FakeLMServer({}, reply=step.answer, fault_share=1.0, faults=("429",), retry_after_s=0) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        limited = run_step(home, corpus, step)
        requests = server.counts.requests
        assert requests and not limited.failed and limited.shown and limited.paid == 0
        server.fault_share = 0.0
        poor = run_step(home, corpus, step, max_cost=1e-9)
        assert server.counts.requests == requests and poor.shown and poor.paid == 0
        assert run_step(home, corpus, step) == Outcome("", [], requests) and server.counts.answered == requests


@pytest.mark.parametrize("name", STEPS)
def test_a_wrong_key_is_one_line_at_once_and_the_build_goes_on_where_it_ended(prepared, monkeypatch, name):
    step, (home, corpus) = STEPS[name], prepared
    for variable, value in (step.environment | {"PALIMPSEST_LM_KEY": "sk-canary"}).items():
        monkeypatch.setenv(variable, value)
    with FakeLMServer({}, reply=step.answer, fault_share=1.0, faults=("401",)) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        with pytest.raises(PalimpsestError, match=r"^PALIMPSEST_LM: .* refuses the key .*PALIMPSEST_LM_KEY") as caught:
            run_step(home, corpus, step)
        assert caught.value.exit_code == 2 and "canary" not in str(caught.value) and server.counts.requests <= 8
        server.fault_share = 0.0
        assert run_step(home, corpus, step).shown == []


@pytest.mark.parametrize("name", ["labels", "formation", "facts"])
def test_an_answer_that_ran_out_of_tokens_is_paid_again_only_where_it_may_be_longer(prepared, monkeypatch, name):
    step, (home, corpus) = STEPS[name], prepared
    for variable, value in (step.environment | {"PALIMPSEST_LM_CONCURRENCY": "1"}).items():
        monkeypatch.setenv(variable, value)
    with FakeLMServer({}, reply=step.answer, fault_share=1.0, faults=("length",)) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        first = run_step(home, corpus, step)
        assert "PALIMPSEST_LM_MAX_TOKENS" in first.failed or (first.shown and first.paid == server.counts.requests)
        requests = server.counts.requests
        server.fault_share = 0.0
        if not first.failed:
            assert run_step(home, corpus, step).shown == first.shown and server.counts.requests == requests
        monkeypatch.setenv("PALIMPSEST_LM_MAX_TOKENS", "5000")
        assert run_step(home, corpus, step).shown == [] and server.counts.requests == 2 * requests


@pytest.mark.parametrize("name", ["formation", "facts"])
def test_answers_that_are_all_empty_are_shown(prepared, monkeypatch, name):
    step, (home, corpus) = STEPS[name], prepared
    empty = {"formation": reflection_answer({}), "facts": fields(entities=[], relationships=[])}[name]
    with FakeLMServer({}, reply=lambda _: empty) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        (shown,) = run_step(home, corpus, step).shown
    assert "to 3 " in shown and "every answer is empty" in shown


@pytest.mark.parametrize("name", ["formation"])  # which home
def test_one_ceiling_is_for_all_steps_of_a_build_and_known_answers_need_no_server(prepared, monkeypatch, name):
    home, corpus = prepared
    setting = ("unit: turn", "form: [turns, reflection]\nreflection: lm\nfacts: lm")
    steps = [replace(STEPS[step], setting=setting) for step in ("formation", "facts")]
    replies = {"conversation": formed_answer, "text": facts_answer}

    def reply(prompt: str) -> str:
        return next(answer for field, answer in replies.items() if prompt_field(prompt, field))(prompt)

    with FakeLMServer({}, reply=reply) as server:
        monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
        run_step(home, corpus, steps[0])
        spent = staged(home).lm_cost
        assert spent > 0
        poor = run_step(home, corpus, steps[1], max_cost=spent)
        assert any("budget" in line for line in poor.shown) and staged(home).lm_cost == spent
        requests = server.counts.requests
        assert run_step(home, corpus, steps[1], max_cost=1.0).shown == [] and spent < staged(home).lm_cost <= 1.0
        assert server.counts.requests > requests
    monkeypatch.delattr("palimpsest.lm.client.served")  # nothing connects
    staged(home).remove_record("chats", "entities")
    assert run_step(home, corpus, steps[1]).shown == []
