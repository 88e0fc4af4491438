"""Models of providers by name, each by its own protocol over real HTTP, with a scripted server at the other end."""

import time

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm.client import ChatMessage, Ledger, LmClient, LmUnavailable, RequestRefused
from palimpsest.lm.settings import Budget, LmSettings, highest_cost, lm_settings
from palimpsest.relations.labelers.label_types import LabelPair
from palimpsest.relations.labelers.lm_labeler import LmLabeler
from palimpsest_eval.testing.fake_lm_server import FakeLMServer

pytestmark = pytest.mark.lm
PROVIDERS = {
    "openai/gpt-4o-mini": ("OPENAI", "/v1", "Bearer sk-canary"),
    "ollama_chat/qwen3": ("OLLAMA", "", "Bearer sk-canary"),
    "anthropic/claude-sonnet-4-5-20250929": ("ANTHROPIC", "", "sk-canary"),
}
PAIRS = [LabelPair(f"n{i}", f"o{i}", f"Heron {i} is due on 9 May.", f"Heron {i} is due in May.") for i in range(4)]
QUESTION = [ChatMessage("user", "Say yes.")]


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr("palimpsest.lm.client._FIRST_WAIT_S", 0.005)


@pytest.mark.parametrize("model", PROVIDERS)
def test_a_provider_answers_by_its_own_protocol_with_its_own_key_and_a_schema(model, monkeypatch, tmp_path, capfd):
    name, path, header = PROVIDERS[model]
    truth = {(p.older, p.newer): "EXTEND" for p in PAIRS}
    with FakeLMServer(truth, fault_share=1.0, faults=("429", "500", "cut"), faulty_attempts=1) as server:
        monkeypatch.setenv(f"{name}_API_BASE", server.url.removesuffix("/v1") + path)
        monkeypatch.setenv(f"{name}_API_KEY", "sk-canary")
        monkeypatch.setenv("PALIMPSEST_LM", model)
        settings, ledger = lm_settings(), Ledger(tmp_path / "l.sqlite")
        got = LmLabeler(settings, ledger).label(PAIRS)
        assert [(a.label, a.decided) for a in got] == [("EXTEND", True)] * 4
        assert sum(a.tokens for a in got) == server.counts.tokens_in + server.counts.tokens_out
        assert (server.counts.formats, ledger.totals().calls) == ({"json_schema": 8}, 4)
        assert server.counts.keys == {header}
        monkeypatch.setenv("PALIMPSEST_LM_KEY", "sk-own")
        LmClient(lm_settings()).complete(QUESTION)
        assert server.counts.keys == {header, header.replace("sk-canary", "sk-own")}
    assert not any(key in repr(settings) + str(capfd.readouterr()) for key in ("sk-canary", "sk-own"))
    assert not any(b"sk-canary" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_prices_of_a_provider_are_those_of_the_table_unless_they_are_set(monkeypatch):
    monkeypatch.setenv("PALIMPSEST_LM", "openai/gpt-4o-mini")
    assert (lm_settings().price_in, lm_settings().price_out) == pytest.approx((0.15, 0.6))
    assert lm_settings().answer_format == "json_schema" and lm_settings().key_parts[0] == "openai/gpt-4o-mini"
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", "3,4")
    assert (lm_settings().price_in, lm_settings().price_out) == (3, 4)
    monkeypatch.delenv("PALIMPSEST_LM_PRICE")
    monkeypatch.setenv("PALIMPSEST_LM", "ollama_chat/qwen3")
    assert lm_settings().price_out == 0
    for wrong, said in (("nobody/x", "no provider 'nobody'"), ("gpt-4o", "PROVIDER/MODEL"), ("m@ftp://x", "MODEL@URL")):
        monkeypatch.setenv("PALIMPSEST_LM", wrong)
        with pytest.raises(PalimpsestError, match=said):
            lm_settings()


def test_a_wait_that_the_server_asks_for_is_kept_by_all_calls_and_a_long_one_ends_the_call():
    with FakeLMServer({}, fault_share=1.0, faults=("429",), faulty_attempts=1, retry_after_s=0.4) as server:
        client, began = LmClient(LmSettings("m", server.url)), time.monotonic()
        assert client.complete(QUESTION).tokens_out and time.monotonic() - began >= 0.4
    with FakeLMServer({}, fault_share=1.0, faults=("429",), retry_after_s=3600) as server:
        with pytest.raises(LmUnavailable, match="RateLimitError"):
            LmClient(LmSettings("m", server.url)).complete(QUESTION)
        assert server.counts.requests == 1


@pytest.mark.parametrize(("model", "variable"), [("m", "PALIMPSEST_LM_KEY"), ("openai/gpt-4o-mini", "provider's own")])
def test_a_wrong_key_is_said_at_once_and_never_shown(model, variable, monkeypatch):
    with FakeLMServer({}, fault_share=1.0, faults=("401",)) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        settings = LmSettings(model, "" if "/" in model else server.url, key="sk-canary")
        with pytest.raises(PalimpsestError, match=f"^PALIMPSEST_LM: .*401.*{variable}") as caught:
            LmClient(settings).complete(QUESTION)
        assert server.counts.requests == 1 and "canary" not in str(caught.value)


def test_a_request_that_is_refused_is_not_sent_again():
    with FakeLMServer({}, fault_share=1.0, faults=("context",)) as server:
        with pytest.raises(RequestRefused):
            LmClient(LmSettings("m", server.url)).complete(QUESTION)
        assert server.counts.requests == 1


def test_the_highest_cost_of_a_call_covers_scripts_whose_letters_are_tokens():
    settings = LmSettings("m", "http://127.0.0.1:1/v1", price_in=1e6, max_tokens=0)
    assert highest_cost(settings, ["a" * 300]) == 101 and highest_cost(settings, ["海" * 300]) == 301
    budget = Budget(1.0)
    assert budget.reserve(0.6) and not budget.reserve(0.6)
