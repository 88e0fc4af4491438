"""Embedders by setting: bge-small, a sentence-transformers folder, an OpenAI-compatible server."""

import numpy as np
import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.memories import server_embedder
from palimpsest.memories.embedders import (
    QUERY_PREFIX,
    load_batch_embedder,
    load_bge,
    load_question_embedder,
    space_of,
)
from palimpsest.memories.vector_space import Space
from tests.memories.embedding_server import EmbeddingServer


@pytest.fixture
def embedding_server(monkeypatch):
    with EmbeddingServer() as running:
        monkeypatch.setenv(server_embedder.URL, running.url)
        monkeypatch.setenv(server_embedder.KEY, "secret")
        server_embedder.load_server.cache_clear()
        yield running
    server_embedder.load_server.cache_clear()


def test_bge_small_finds_the_answer_and_a_vector_depends_on_its_text_alone():
    texts = ["Maria moved to Porto in May.", "The cat sleeps on the mat.", "The release goes out on Fridays."]
    bge = load_bge()
    vectors = bge.encode(texts)
    assert vectors.shape == (3, 384) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.argmax(vectors @ bge.embed("Where does Maria live?")) == 0
    assert np.array_equal(bge.encode(texts[::-1])[::-1], vectors)
    assert np.array_equal(bge.embed("x"), bge.encode([QUERY_PREFIX + "x"])[0])  # only questions have the prefix


def test_the_name_of_a_space_says_what_its_vectors_depend_on_and_a_missing_folder_or_variable_is_named(
    tmp_path, monkeypatch
):
    minilm, bge = space_of("minilm", tmp_path), space_of("bge-small-en-v1.5", tmp_path)
    assert minilm.name.startswith("all-MiniLM-L6-v2-") and minilm.dimensions == 384
    assert bge.name.startswith("bge-small-en-v1.5-int8-cls-384d-512t-")
    assert Space.from_json(bge.to_json()) == bge
    with pytest.raises(PalimpsestError, match=r"none: no such folder"):
        space_of(str(tmp_path / "none"), tmp_path)
    monkeypatch.delenv(server_embedder.URL, raising=False)
    server_embedder.load_server.cache_clear()
    with pytest.raises(PalimpsestError, match="PALIMPSEST_EMBEDDER_URL"):
        space_of("openai:toy", tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", '{"auto_map": {"AutoModel": "evil.Model"}}', "code of its own"),
        ("modules.json", '[{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]', "code that never runs"),
        ("2_Dense/pytorch_model.bin", "pickle", "pickled weights"),
    ],
)
def test_code_and_pickles_of_a_model_are_refused(tmp_path, file, content, message):
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "evil.py").write_text("raise SystemExit('this ran')")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    with pytest.raises(PalimpsestError, match=message):
        space_of(str(tmp_path), tmp_path / "vectors")


def test_a_server_gets_batches_and_its_dimension_is_asked_for_once_and_may_not_change(tmp_path, embedding_server):
    space = space_of("openai:toy", tmp_path)
    assert space.dimensions == 8 and "-8d-" in space.name
    assert space_of("openai:toy", tmp_path) == space and embedding_server.batches == [1]
    embedder = load_batch_embedder(space)
    texts = [f"text {i}" for i in range(150)]
    vectors = embedder.encode(texts)
    assert vectors.shape == (150, 8) and embedding_server.batches == [1, 64, 64, 22]
    assert np.argmax(vectors @ load_question_embedder(space).embed("text 7")) == 7
    assert embedder.usage.calls == 4 and embedder.usage.tokens == 2 * 151
    assert embedding_server.keys == {"Bearer secret"}
    with pytest.raises(PalimpsestError, match="8 dimensions, was 16"):
        load_batch_embedder(Space("openai:toy", "", 16)).encode(["x"])


def test_a_busy_server_is_tried_again_and_a_refusal_is_not(tmp_path, embedding_server, monkeypatch):
    monkeypatch.setattr(server_embedder, "_FIRST_WAIT_S", 0.01)
    embedding_server.failures = [503, 429]
    assert space_of("openai:toy", tmp_path).dimensions == 8 and embedding_server.requests == 3
    embedding_server.failures = [401]
    with pytest.raises(PalimpsestError, match="status 401") as refused:
        load_batch_embedder(Space("openai:toy", "", 8)).encode(["x"])
    assert embedding_server.requests == 4 and "secret" not in str(refused.value)


def test_a_server_that_stays_away_or_answers_nonsense_is_a_failed_component(tmp_path, embedding_server, monkeypatch):
    monkeypatch.setattr(server_embedder, "_FIRST_WAIT_S", 0.01)
    embedding_server.failures = [500] * 6
    with pytest.raises(ComponentFailed, match="status 500"):
        space_of("openai:toy", tmp_path)
    embedding_server.answer = {"data": [{"index": 0}]}
    with pytest.raises(ComponentFailed, match="no vectors"):
        space_of("openai:toy", tmp_path)
