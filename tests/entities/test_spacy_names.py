"""Names by a spaCy pipeline that a collection names: a real package of rules, made here and installed on the path."""

import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.entities import spacy_names
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.collection_config import load_collection
from palimpsest.store.home import Home
from tests.small_corpus import write_notes

_INIT = """from spacy.util import load_model_from_init_py


def load(**overrides):
    return load_model_from_init_py(__file__, **overrides)
"""


@pytest.fixture
def tide_names(tmp_path, monkeypatch):
    """An installed pipeline that knows a person and a place in small letters, which no capital shows."""
    import spacy

    nlp = spacy.blank("en")
    nlp.meta |= {"name": "tide_names", "version": "1.0.0"}
    patterns = [{"label": "PERSON", "pattern": "ansel moreau"}, {"label": "GPE", "pattern": "rill mouth"}]
    nlp.add_pipe("entity_ruler").add_patterns([*patterns, {"label": "DATE", "pattern": "noon"}])
    site = tmp_path / "site"
    folder = site / "en_tide_names"
    folder.mkdir(parents=True)
    nlp.to_disk(folder / "en_tide_names-1.0.0")
    (folder / "__init__.py").write_text(_INIT)
    (folder / "meta.json").write_text(json.dumps(nlp.meta))
    info = site / "en_tide_names-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: en_tide_names\nVersion: 1.0.0\n")
    monkeypatch.syspath_prepend(str(site))
    spacy_names._pipeline.cache_clear()
    yield "en_tide_names"
    spacy_names._pipeline.cache_clear()


def built(tmp_path, vectors, **settings):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "We met ansel moreau at noon in rill mouth.\n"}, **settings)
    return run_without_dagster(home := Home(tmp_path / "home", vectors), make_plan(home, [corpus]))


def test_a_collection_that_names_a_pipeline_gets_its_names_and_kinds(tmp_path, shared_vectors, tide_names):
    entities = built(tmp_path, shared_vectors, ner=tide_names).table("notes", "entities")
    found = set(entities.select("name", "type").iter_rows())
    assert {("ansel moreau", "person"), ("rill mouth", "place")} <= found
    assert "noon" not in entities["name"]


def test_without_the_setting_no_pipeline_is_loaded(tmp_path, shared_vectors, tide_names):
    names = built(tmp_path, shared_vectors).table("notes", "entities")["name"]
    assert "ansel moreau" not in names and spacy_names._pipeline.cache_info().misses == 0


def test_a_pipeline_that_is_not_installed_is_an_error_with_its_fix(tmp_path, shared_vectors):
    with pytest.raises(PalimpsestError, match="no spaCy pipeline en_nowhere_sm is installed; install a package"):
        built(tmp_path, shared_vectors, ner="en_nowhere_sm")


def test_a_path_is_no_name_of_a_pipeline(tmp_path):
    write_notes(tmp_path, {}, ner="../models/mine")
    with pytest.raises(PalimpsestError, match="ner"):
        load_collection(tmp_path / "notes")
