"""A reranker reads the best candidates; what it says is fused with the ranking, and its failure changes nothing."""

import json
import os
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.rerank import RERANKED, RerankerFailed, open_reranker
from palimpsest.query.result import SearchResult
from palimpsest_eval.testing.fake_lm_server import FakeLMServer, program_answer, prompt_field
from tests.query import made

ANA = Scope("notes", "ana")
QUESTION = "When is the launch?"


class Recorder:
    """Scores texts by a rule, and keeps what it read."""

    name = "recorder"

    def __init__(self, rule):
        self.rule, self.read = rule, []

    def score(self, question, texts):
        self.read.append((question, list(texts)))
        return np.array([self.rule(t) for t in texts], float)


MADE = [made.memory(f"m{i:02}", f"The launch of stage {i} is on day {i}.") for i in range(40)]
MADE.append(made.memory("other", "The launch is a secret of Ben.", user_id="ben"))
index = made.index_fixture(MADE)


def search(index, reranker, **options) -> SearchResult:
    with open_index(index) as opened:
        return Reader(opened.backend, reranker=reranker).search(QUESTION, ANA, strategy="hybrid", hops=0, **options)


def test_the_best_candidates_are_sorted_by_both_scores_and_the_others_stay_behind(index):
    plain = search(index, None, k=40)
    last = plain.memories[RERANKED - 1]
    reranker = Recorder(lambda text: 100.0 if text == last.text else 0.0)
    found = search(index, reranker, k=40)
    assert found.memories[0].memory_id == last.memory_id and found.memories[0].rerank_score == 100.0
    assert not any("Ben" in text for text in reranker.read[0][1])
    assert len(reranker.read[0][1]) == RERANKED and reranker.read[0][0] == QUESTION
    assert [m.memory_id for m in found.memories[RERANKED:]] == [m.memory_id for m in plain.memories[RERANKED:]]
    assert all(m.rerank_score is None for m in found.memories[RERANKED:])
    assert found.timings["rerank_ms"] > plain.timings["rerank_ms"] >= 0


def test_a_reranker_that_cannot_tell_texts_apart_or_fails_changes_nothing(index):
    def fails(_):
        raise RerankerFailed("out of order")

    for rule, candidates, failed in ((lambda _: 3.0, RERANKED, None), (fails, 0, "out of order")):
        plain, found = search(index, None, k=40), search(index, Recorder(rule), k=40)
        assert [m.memory_id for m in found.memories] == [m.memory_id for m in plain.memories]
        assert found.to_json()["reranker"] == {"name": "recorder", "candidates": candidates, "failed": failed}


def rated(scores: object) -> str:
    return program_answer({"scores": scores}, as_json=False)


def rating(prompt: str) -> str:
    return rated([9 if "stage 7 " in line else 1 for line in prompt_field(prompt, "texts").splitlines()])


def lm(monkeypatch, server, price="0,0", max_cost=""):
    monkeypatch.setenv("PALIMPSEST_LM", f"stand-in@{server.url}")
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", price)
    monkeypatch.setenv("PALIMPSEST_LM_ATTEMPTS", "1")
    monkeypatch.setenv("PALIMPSEST_RERANKER_MAX_COST", max_cost)


@pytest.mark.lm
@pytest.mark.parametrize("form", ["text", "json_schema"])
def test_a_language_model_rates_once_and_its_ledger_has_no_text(index, tmp_path, monkeypatch, form):
    def reply(prompt: str) -> str:
        said = rating(prompt)
        return said if form == "text" else program_answer({"scores": json.loads(said.split("\n")[1])}, as_json=True)

    with FakeLMServer({}, reply=reply) as server:
        lm(monkeypatch, server)
        monkeypatch.setenv("PALIMPSEST_LM_FORMAT", form)
        for _ in range(2):
            found = search(index, open_reranker("lm", tmp_path))
        assert server.counts.answered == 1
    assert found.memories[0].text == "The launch of stage 7 is on day 7." and found.memories[0].rerank_score == 9.0
    assert found.reranker.name == "lm:stand-in"
    stored = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"launch" not in stored and b"scores" in stored


ANSWERS = ["soup", rated([1, 2]), rated("9"), rated([float("nan")] * RERANKED), "[" * 5000]
ANSWERS += [rated(["ignore all"] * RERANKED), rated([9] * RERANKED).replace("9]", "")]


_OPEN = """
import sys
from palimpsest.query.rerank import RerankerFailed, open_reranker
reranker = open_reranker("lm", None)
assert not {"polars", "dspy", "openai"} & set(sys.modules)
try:
    reranker.score("Where?", ["Here.", "There."])
except RerankerFailed:
    assert "dspy" in sys.modules and "polars" not in sys.modules
"""


def test_a_reranker_that_is_opened_loads_neither_dspy_nor_polars_and_its_call_loads_dspy_alone():
    env = os.environ | {"PALIMPSEST_LM": "m@http://127.0.0.1:9/v1", "PALIMPSEST_LM_ATTEMPTS": "1"}
    subprocess.run([sys.executable, "-c", _OPEN], check=True, env=env)


@pytest.mark.lm
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_not_one_number_for_each_text_is_paid_once_and_changes_nothing(
    index, tmp_path, monkeypatch, answer
):
    plain = search(index, None)
    with FakeLMServer({}, reply=lambda _: answer) as server:
        lm(monkeypatch, server)
        for _ in range(2):
            found = search(index, open_reranker("lm", tmp_path))
        assert server.counts.answered == 1
    assert [m.memory_id for m in found.memories] == [m.memory_id for m in plain.memories]
    assert "not one number for each text" in str(found.reranker.failed)


@pytest.mark.lm
def test_no_call_is_made_that_may_pass_the_budget_and_a_server_that_is_down_leaves_the_ranking(
    index, tmp_path, monkeypatch
):
    with FakeLMServer({}, reply=rating) as server:
        lm(monkeypatch, server, price="1000,1000", max_cost="0.01")
        found = search(index, open_reranker("lm", tmp_path))
        assert server.counts.requests == 0 and "PALIMPSEST_RERANKER_MAX_COST" in str(found.reranker.failed)
    with FakeLMServer({}, fault_share=1.0, faults=("500",)) as server:
        lm(monkeypatch, server)
        found = search(index, open_reranker("lm", tmp_path))
    assert found.memories and "gave no answer" in str(found.reranker.failed)


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "much"])
def test_a_budget_that_is_no_number_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.setenv("PALIMPSEST_LM", "m@http://127.0.0.1:9/v1")
    monkeypatch.setenv("PALIMPSEST_RERANKER_MAX_COST", value)
    with pytest.raises(PalimpsestError, match="PALIMPSEST_RERANKER_MAX_COST"):
        open_reranker("lm", tmp_path)


def test_the_environment_names_a_reranker_and_an_empty_name_is_none(tmp_path, monkeypatch):
    assert open_reranker(None, tmp_path) is None
    monkeypatch.setenv("PALIMPSEST_RERANKER", str(tmp_path / "model"))
    named = open_reranker(None, tmp_path)
    assert named.name == str(tmp_path / "model")
    assert open_reranker("", tmp_path) is None


@pytest.mark.slow
def test_a_folder_without_a_model_is_one_clear_line(index, tmp_path):
    with pytest.raises(PalimpsestError, match=r"reranker=.*: cannot be loaded"):
        search(index, open_reranker(str(tmp_path), None))


@pytest.mark.parametrize("name", ["nosuchmodel", "no such model", "nobody/nosuchmodel"])
def test_a_model_that_nobody_has_is_one_clear_line_at_once(monkeypatch, name):
    look_up = Mock(side_effect=ConnectionError("nobody answers"))
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", look_up)
    with pytest.raises(ArgumentError, match=r"^reranker='.*': is no folder and no model that the hub gives"):
        open_reranker(name, None).score(QUESTION, ["a", "b"])
    assert look_up.call_count == 1


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory):
    """A cross-encoder of two layers with weights drawn by seed: it reads, and knows nothing."""
    import torch
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    from palimpsest_eval.training.weights import model_folder

    folder = tmp_path_factory.mktemp("cross-encoder")
    torch.manual_seed(5)
    named = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    read = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=read, model_max_length=128, **named)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    sizes["initializer_range"] = 0.5
    config = BertConfig(vocab_size=len(tokenizer), num_labels=1, **sizes)
    BertForSequenceClassification(config).save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_cross_encoder_of_a_folder_scores_each_text_by_itself(cross_encoder):
    reranker = open_reranker(str(cross_encoder), None)
    texts = [f"The launch of stage {i} is on day {i}." for i in range(RERANKED)]
    scores = reranker.score(QUESTION, texts)
    assert scores.shape == (RERANKED,) and scores.dtype == np.float64 and len(set(scores.tolist())) > 1
    assert reranker.score(QUESTION, texts[:3]) == pytest.approx(scores[:3], abs=1e-5)
    assert reranker.score("What does the parcel cost?", texts[:3]) != pytest.approx(scores[:3], abs=1e-5)


def test_a_model_stored_as_a_pickle_is_refused(cross_encoder, tmp_path):
    import shutil

    import torch
    from safetensors.torch import load_file

    folder = shutil.copytree(cross_encoder, tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    reranker = open_reranker(str(folder), None)
    with pytest.raises(PalimpsestError, match="cannot be loaded"):
        reranker.score(QUESTION, ["a", "b"])
