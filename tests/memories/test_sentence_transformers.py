"""Models run by sentence-transformers, by folder: pooling, prompts and batches are the library's."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from palimpsest.core.errors import PalimpsestError
from palimpsest.memories.embedders import load_batch_embedder, load_question_embedder, space_of
from palimpsest.memories.sentence_model import SentenceModel, load_model, open_model
from palimpsest_eval.training.weights import model_folder
from tests.memories.texts import TEXTS

PROMPTS = {"query": "query: ", "passage": "passage: "}


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory):
    """The folder of MiniLM's first two layers: the network is the same, and it takes a third of the time."""
    folder = tmp_path_factory.mktemp("model") / "two-layers"
    shutil.copytree(model_folder(), folder, ignore=shutil.ignore_patterns("model.safetensors"))
    weights = load_file(model_folder() / "model.safetensors")
    deeper = tuple(f"encoder.layer.{n}." for n in range(2, 6))
    kept = {name: w for name, w in weights.items() if not name.startswith(deeper)}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    return folder


def unit(vector):
    return vector / np.linalg.norm(vector)


def change(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_pooling_prompts_and_length_are_the_models_and_a_vector_does_not_depend_on_the_other_texts(
    tmp_path, two_layers
):
    folder = shutil.copytree(two_layers, tmp_path / "model")
    change(folder, "config_sentence_transformers.json", prompts=PROMPTS)
    change(folder, "sentence_bert_config.json", max_seq_length=41)  # no multiple of the width step
    change(folder, "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)
    embedder = load_model(str(folder))
    seen: list[int] = []
    together = embedder.encode(TEXTS, lambda rows, _: seen.extend(rows))
    assert sorted(seen) == list(range(len(TEXTS)))
    assert np.array_equal(together[::-1], embedder.encode(TEXTS[::-1]))
    for i, text in enumerate(TEXTS):
        assert np.array_equal(together[i], embedder.encode([text])[0])
        assert together[i] == pytest.approx(unit(embedder.model.encode(PROMPTS["passage"] + text)), abs=1e-5)
    assert embedder.embed("bees") == pytest.approx(unit(embedder.model.encode("query: bees")), abs=1e-5)
    mean = open_model(two_layers).encode(["passage: I keep bees."])[0]
    assert np.abs(together[1] - mean).max() > 0.01  # the states of [CLS] are not the mean


def test_a_model_that_pads_nothing_is_embedded_too():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    weights = np.random.default_rng(3).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
    embedder = SentenceModel(
        SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    )
    vectors = embedder.encode(TEXTS[:2])
    assert embedder.dimensions == 16 and vectors[1] == pytest.approx(embedder.embed(TEXTS[1]), abs=1e-6)
    assert embedder.encode([]).shape == (0, 16)


@pytest.mark.slow
def test_a_folder_of_safetensors_is_loaded_and_a_changed_weight_is_another_space(tmp_path, two_layers):
    folder = tmp_path / "model"
    shutil.copytree(two_layers, folder)
    space = space_of(str(folder), tmp_path / "vectors")
    assert space.dimensions == 384 and "-mean-384d-256t-" in space.name
    vectors = load_batch_embedder(space).encode(["a cat", "a kitten", "tax law"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert np.argmax(vectors @ load_question_embedder(space).embed("legislation about taxes")) == 2
    prompts = {"prompts": {"query": "query: ", "document": ""}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert space_of(str(folder), tmp_path / "vectors").name != space.name
    with pytest.raises(PalimpsestError, match="has vectors of"):
        load_question_embedder(space)
