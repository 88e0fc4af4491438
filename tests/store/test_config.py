"""Settings of a collection: an error names file and field, and nothing invalid is accepted."""

from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.strategies import NAMED
from palimpsest.store.collection_config import WeightsConfig, load_collection

GOOD = "name: notes\ndescription: notes\n"


def load(folder: Path, text: str):
    (folder / "collection.yaml").write_text(text)
    return load_collection(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nname: b\ndescription: x\n", "name is given twice"),
        (GOOD + "metadata_schema: {type: 3}\n", "metadata_schema is no JSON Schema (draft 2020-12): type: 3"),
        (GOOD + 'metadata_schema: {$ref: "http://example.org/s.json"}\n', "metadata_schema refers to 'http://"),
        (GOOD + 'metadata_schema: {properties: {a: {$ref: "#/$defs/b"}}}\n', "'#/$defs/b', which is not in it"),
        (GOOD + "document_relations: ../relations.jsonl\n", "document_relations must be a file inside the collection"),
        (GOOD + "document_relations: /etc/passwd\n", "document_relations must be a file inside the collection"),
        (GOOD + "retention_days: 0\n", "retention_days input should be greater than 0"),
        (GOOD + "weights: 3\n", "weights must be a mapping such as {words: 0.8, recency: 0.2}"),
        (GOOD + "weights: {recncy: 1}\n", "weights has no weight 'recncy'; use vector, words, graph, time, recency"),
        (GOOD + "weights: {recency: -1}\n", "weights.recency input should be greater than or equal to 0"),
        (GOOD + "weights: {recency: .inf}\n", "weights.recency input should be"),
        (GOOD + "weights: {recency: .nan}\n", "weights.recency input should be"),
        (GOOD + "weights: {words: much}\n", "weights.words input should be a valid number"),
        (GOOD + "weights: {vector: 0, words: 0}\n", "weights gives vector and words 0, which finds nothing"),
        ("name: [a\n", "not valid YAML"),
        ("- name\n", "must be a mapping"),
    ],
)
def test_a_wrong_setting_is_reported_with_its_field(tmp_path, text, message):
    with pytest.raises(PalimpsestError) as e:
        load(tmp_path, text)
    assert message in str(e.value) and str(tmp_path) in str(e.value) and "\n" not in str(e.value)


def test_weights_that_are_not_given_are_the_strategys_own_and_each_name_is_one_that_ranking_knows(tmp_path):
    config = load(tmp_path, GOOD + "weights: {recency: 0.2, graph: 1}\n")
    assert config.weights.model_dump(exclude_none=True) == {"recency": 0.2, "graph": 1.0}
    assert tuple(WeightsConfig.model_fields) == NAMED


def test_a_schema_may_refer_to_its_own_definitions(tmp_path):
    config = load(
        tmp_path, GOOD + 'metadata_schema: {$defs: {b: {type: string}}, properties: {a: {$ref: "#/$defs/b"}}}\n'
    )
    assert config.metadata_schema is not None


def test_the_same_key_may_stand_in_different_mappings(tmp_path):
    text = GOOD + "metadata_schema: {properties: {a: {type: string}, b: {type: string}}}\n"
    assert load(tmp_path, text).metadata_schema == {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
