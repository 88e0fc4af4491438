import subprocess
import sys

import numpy as np

from palimpsest.memories.embed import load_embedder
from tests.memories.texts import TEXTS


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
