"""Models run by sentence-transformers: in one file, because importing it takes eight seconds of processor time."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from palimpsest.core.errors import PalimpsestError
from palimpsest.memories.embed import load_embedder, load_network, model_folder
from palimpsest.memories.embedders import load_batch_embedder, load_question_embedder, space_of
from tests.memories.texts import TEXTS


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


@pytest.mark.parametrize("number_format", ["float32", "bfloat16"])
@pytest.mark.slow
def test_vectors_are_bit_for_bit_those_of_sentence_transformers(number_format, two_layers):
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = getattr(torch, number_format)
    reference = SentenceTransformer(str(two_layers), device="cpu").to(dtype).eval()
    embedder = load_embedder()
    own = replace(embedder, model=load_network(two_layers, dtype))
    assert np.array_equal(own.encode(TEXTS), replace(embedder, model=reference).encode(TEXTS))


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
