import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from palimpsest.memories.embed import load_embedder, model_folder
from palimpsest.memories.minilm_network import load_network

# Of several widths, one of them exactly a multiple of 16 tokens, and some beyond 256: batches with and without padding.
TEXTS = [
    "The launch moved to Friday.",
    "I keep bees.",
    "",
    "word " * 14,
    *(f"{name} " * 400 for name in ("first", "second", "third")),
    "A longer statement about the release of the reporting tool, which was agreed by both teams in March.",
]


@pytest.mark.parametrize("number_format", ["float32", "bfloat16"])
def test_vectors_are_bit_for_bit_those_of_sentence_transformers(number_format):
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = getattr(torch, number_format)
    reference = SentenceTransformer(str(model_folder()), device="cpu").to(dtype).eval()
    embedder = load_embedder()
    own = replace(embedder, model=load_network(model_folder(), dtype))
    assert np.array_equal(own.encode(TEXTS), replace(embedder, model=reference).encode(TEXTS))


def test_a_vector_does_not_depend_on_the_other_texts():
    embedder = load_embedder()
    together = embedder.encode(TEXTS)
    for i in range(len(TEXTS)):
        assert np.array_equal(together[i], embedder.encode([TEXTS[i]])[0])
    assert np.array_equal(together[::-1], embedder.encode(TEXTS[::-1]))


def test_the_embedder_is_loaded_without_sentence_transformers():
    code = (
        "import sys\nfrom palimpsest.memories.embed import load_embedder\n"
        "load_embedder().encode(['I keep bees.'])\n"
        "print(*sorted({'sentence_transformers', 'transformers', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
