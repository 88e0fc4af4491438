"""A language model may pick the sentences that a context quotes: by number alone, under a budget, paid once."""

import pytest

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.query.context.quotes import ELISION, open_compressor
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.result import SearchResult
from palimpsest_eval.testing.fake_lm_server import FakeLMServer, program_answer, prompt_field
from tests.query import made

ANA = Scope("notes", "ana")
QUESTION = "Was the mill of Varn rebuilt after the flood?"
ANSWER = "Nobody ever put the wheel back."


def page(number: int) -> str:
    about = {3: "The mill of Varn lay below the flood of 2021.", 4: "It cost 400 crowns.", 30: ANSWER}
    return " ".join(
        about.get(i, f"Sentence {i} of page {number} speaks of other matters at some length.") for i in range(60)
    )


MADE = [made.memory(f"m{i}", page(i)) for i in range(3)] + [made.memory("short", "The flood was in May.")]
MADE.append(made.memory("other", "The mill of Ben is a secret. " + page(9), user_id="ben"))
index = made.index_fixture(MADE)


def search(index, compressor, **options) -> SearchResult:
    options = {"compress": "lm", "budget_tokens": 400} | options
    with open_index(index) as opened:
        return Reader(opened.backend, compressor=compressor).search(QUESTION, ANA, strategy="hybrid", hops=0, **options)


def lm(monkeypatch, server, price="0,0", max_cost=""):
    monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", price)
    monkeypatch.setenv("PALIMPSEST_LM_ATTEMPTS", "1")
    monkeypatch.setenv("PALIMPSEST_COMPRESSOR_MAX_COST", max_cost)


def sentences_of(prompt: str) -> list[str]:
    return [line.partition("] ")[2] for line in prompt_field(prompt, "sentences").splitlines()]


def chosen(numbers: object) -> str:
    return program_answer({"chosen": numbers}, as_json=False)


def picking(prompt: str) -> str:
    return chosen([n for n, text in enumerate(sentences_of(prompt), 1) if text == ANSWER][:1])


@pytest.mark.lm
def test_a_context_quotes_the_sentences_that_the_model_picked_and_no_other_of_a_long_memory(index, monkeypatch):
    by_words = search(index, None, compress="words")
    assert ANSWER not in by_words.context and by_words.compression is None
    with FakeLMServer({}, reply=picking) as server:
        lm(monkeypatch, server)
        found = search(index, open_compressor("lm", None))
    (quote,) = found.quotes
    ((start, end),) = quote.spans
    text = next(m.text for m in found.memories if m.memory_id == quote.memory_id)
    assert text[start:end] == ANSWER and f"[…] {ANSWER} […]" in found.context and "of page" not in found.context
    assert "short" in found.packed_ids
    compression = found.to_json()["compression"]
    assert compression == {"name": "lm:stand-in", "read": compression["read"], "picked": 1, "failed": None}
    assert compression["read"] > 60 and found.timings["compress_ms"] > 0 and "compress_ms" not in by_words.timings


@pytest.mark.lm
def test_an_answer_is_paid_once_and_the_ledger_has_no_text(index, tmp_path, monkeypatch):
    with FakeLMServer({}, reply=picking) as server:
        lm(monkeypatch, server)
        contexts = {search(index, open_compressor("lm", tmp_path)).context for _ in range(2)}
        assert server.counts.answered == 1 and len(contexts) == 1
    stored = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"mill" not in stored and b"wheel" not in stored and b"chosen" in stored


LISTS = ["[]", "[0]", "[-1, 2]", "[1, 100000]", "[1.5]", '"one"', '{"1": 2}', f"[{'9' * 5000}]"]
LISTS.append('["The mill was rebuilt in gold. [memory:m1]"]')


@pytest.mark.lm
@pytest.mark.parametrize("answer", ["soup", ANSWER, "[" * 5000, *map(chosen, LISTS)])
def test_an_answer_that_is_no_list_of_numbers_of_sentences_leaves_the_quotes_by_words(
    index, tmp_path, monkeypatch, answer
):
    by_words = search(index, None, compress="words")
    with FakeLMServer({}, reply=lambda _: answer) as server:
        lm(monkeypatch, server)
        found = [search(index, open_compressor("lm", tmp_path)) for _ in range(2)]
        assert server.counts.answered == 1
    for result in found:
        assert result.context == by_words.context and result.quotes == by_words.quotes
        assert "names no sentence" in str(result.compression.failed)


@pytest.mark.lm
def test_the_model_reads_no_text_of_another_user_and_nothing_where_all_fits_and_text_around_is_not_read(
    index, monkeypatch
):
    prompts = []

    def record(prompt: str) -> str:
        prompts.append(prompt)
        return f"Sure! The mill was rebuilt in gold.\n{picking(prompt)}\n[memory:m9]"

    with FakeLMServer({}, reply=record) as server:
        lm(monkeypatch, server)
        found = search(index, open_compressor("lm", None))
        whole = search(index, open_compressor("lm", None), budget_tokens=20_000)
    assert ANSWER in found.context and "gold" not in found.context and "m9" not in found.context
    assert len(prompts) == 1 and "Ben" not in prompts[0]
    assert whole.compression.read == 0 and whole.compression.failed is None
    assert sum(map(len, sentences_of(prompts[0]))) <= 24_000


@pytest.mark.lm
def test_no_call_is_made_that_may_pass_the_budget_and_a_server_that_is_down_is_named(index, monkeypatch):
    by_words = search(index, None, compress="words")
    with FakeLMServer({}, reply=picking) as server:
        lm(monkeypatch, server, price="1000,1000", max_cost="0.01")
        found = search(index, open_compressor("lm", None))
        assert server.counts.requests == 0
    assert "PALIMPSEST_COMPRESSOR_MAX_COST" in str(found.compression.failed)
    assert found.context == by_words.context
    with FakeLMServer({}, fault_share=1.0, faults=("500",)) as server:
        lm(monkeypatch, server)
        found = search(index, open_compressor("lm", None))
    assert found.context == by_words.context
    assert "gave no answer" in str(found.compression.failed)


def test_a_search_asks_only_for_what_the_home_was_opened_with_and_none_packs_no_quote(index):
    with pytest.raises(ArgumentError, match="PALIMPSEST_COMPRESSOR=lm"):
        search(index, None)
    with pytest.raises(ArgumentError, match="must be 'words', 'lm' or 'none'"):
        search(index, None, compress="gpt")
    assert search(index, None, compress="words").quotes
    found = search(index, None, compress="none")
    assert found.quotes == () and ELISION not in found.context


def test_a_compressor_is_named_by_the_environment_and_a_wrong_name_or_budget_is_refused(tmp_path, monkeypatch):
    assert open_compressor(None, tmp_path) is None
    monkeypatch.setenv("PALIMPSEST_COMPRESSOR", "summary")
    with pytest.raises(PalimpsestError, match="'summary'"):
        open_compressor(None, tmp_path)
    assert open_compressor("", tmp_path) is None
    monkeypatch.setenv("PALIMPSEST_LM", "m@http://127.0.0.1:9/v1")
    monkeypatch.setenv("PALIMPSEST_COMPRESSOR_MAX_COST", "much")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_COMPRESSOR_MAX_COST"):
        open_compressor("lm", tmp_path)
