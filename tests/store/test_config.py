"""Settings of a collection: an error names file and field, and nothing invalid is accepted."""

from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.strategies import NAMED
from palimpsest.store.collection_config import CollectionConfig, WeightsConfig, load_collection

GOOD = "name: notes\ndescription: notes\n"


def load(folder: Path, text: str):
    (folder / "collection.yaml").write_text(text)
    return load_collection(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "metadata_schema: {type: 3}\n", "metadata_schema is no JSON Schema (draft 2020-12): type: 3"),
        (GOOD + "metadata_schema: {properties: {a: {default: 2020-01-01}}}\n", "metadata_schema has a value that JSON"),
        (GOOD + "metadata_schema: {properties: {a: {default: .nan}}}\n", "metadata_schema has a value that JSON does"),
        (GOOD + 'metadata_schema: {$ref: "http://example.org/s.json"}\n', "metadata_schema refers to 'http://"),
        (GOOD + 'metadata_schema: {properties: {a: {$ref: "#/$defs/b"}}}\n', "'#/$defs/b', which is not in it"),
        (GOOD + "document_relations: ../relations.jsonl\n", "document_relations must be a file inside the collection"),
        (GOOD + "document_relations: /etc/passwd\n", "document_relations must be a file inside the collection"),
        (GOOD + "form: [turn, chunk]\n", "collection.yaml: form names turn and chunk; a collection has one unit"),
        (GOOD + "form: [dream]\n", "form has no 'dream'; use chunk, turn or statement, and reflection"),
        (GOOD + "form: {turn: 1}\n", "form must be a list such as [turn, reflection]"),
        (GOOD + "unit: chunk\nform: [turns, reflection]\n", "form says turn, and unit says chunk; remove one of them"),
        (GOOD + "promote: [dream]\n", "promote.0 input should be 'fact', 'preference'"),
        (GOOD + "retention_days: 0\n", "retention_days input should be greater than 0"),
        (GOOD + "weights: 3\n", "weights must be a mapping such as {words: 0.8, recency: 0.2}"),
        (GOOD + "weights: {recncy: 1}\n", "weights has no weight 'recncy'; use vector, words, graph, time, recency"),
        (GOOD + "weights: {recency: -1}\n", "weights.recency input should be greater than or equal to 0"),
        (GOOD + "weights: {recency: .inf}\n", "weights.recency input should be"),
        (GOOD + "weights: {recency: .nan}\n", "weights.recency input should be"),
        (GOOD + "weights: {vector: 0, words: 0}\n", "weights gives vector and words 0, which finds nothing"),
        (GOOD + "trust: 2\n", "trust must be a number from 0 to 1, or a mapping"),
        (GOOD + "trust: true\n", "trust must be a number from 0 to 1, or a mapping"),
        (GOOD + "trust: .nan\n", "trust must be a number from 0 to 1, or a mapping"),
        (GOOD + "trust:\n", "trust must be a number from 0 to 1, or a mapping"),
        (GOOD + "trust: {speaker: {Ana: 1}}\n", "trust has no field 'speaker'; use default, kinds, speakers"),
        (GOOD + "trust: {default: -0.1}\n", "trust.default must be a number from 0 to 1"),
        (GOOD + "trust: {kinds: {email: 0.2}}\n", "trust.kinds has no kind 'email'; use message, file, tool, import"),
        (GOOD + "trust: {kinds: {tool: low}}\n", "trust.kinds 'tool': must be a number from 0 to 1"),
        (GOOD + "trust: {speakers: [Ana]}\n", "trust.speakers must be a mapping of names to numbers from 0 to 1"),
        (GOOD + "trust: {speakers: {7: 0.5}}\n", "trust.speakers must be a mapping of names to numbers from 0 to 1"),
        (GOOD + "trust: {speakers: {Ana: 1, ANA: 0}}\n", "trust.speakers names 'ANA' twice"),
        (GOOD + "units: turn\n", "collection.yaml: has no field 'units'; use unit ("),
        (GOOD + "user: ana\n", "collection.yaml: has no field 'user'; use users or user_id ("),
        (GOOD + "colour: red\n", "collection.yaml: has no field 'colour'; use name, description, default, unit,"),
        (GOOD + "limits: {max_byte: 3}\n", "collection.yaml: limits has no field 'max_byte'; use max_bytes ("),
        (GOOD + "users: {refuse: [Ana]}\n", "collection.yaml: users has no field 'refuse'; use deny ("),
        ("units: turn\nunit: paragraph\n", "name is required; description is required; unit input should be"),
        ("units: turn\nunit: paragraph\n", "or 'statement'; has no field 'units'; use unit ("),
        (GOOD + "limits: {" + ", ".join(f"max_{i}: 1" for i in range(12)) + "}\n", "; and 2 more ("),
        ("name: [a\n", "not valid YAML: line 2: expected ',' or ']'"),
        (GOOD + "unit: turn\n  user_id: ann\n", "not valid YAML: line 4: mapping values are not allowed here"),
        (GOOD + "name: b\n", "not valid YAML: line 3: name is given twice"),
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


def test_a_schema_may_refer_to_its_own_definitions_and_the_same_key_may_stand_in_different_mappings(tmp_path):
    schema = 'metadata_schema: {$defs: {b: {type: string}}, properties: {a: {$ref: "#/$defs/b"}}}\n'
    assert load(tmp_path, GOOD + schema).metadata_schema is not None
    text = GOOD + "metadata_schema: {properties: {a: {type: string}, b: {type: string}}}\n"
    assert load(tmp_path, text).metadata_schema == {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


def test_trust_is_a_number_or_a_mapping_and_alike_for_all_without_the_setting(tmp_path):
    assert load(tmp_path, GOOD).trust.of_source("tool", "Ana") == 0.5
    assert load(tmp_path, GOOD + "trust: 1\n").trust.of_source("file") == 1.0
    trust = load(tmp_path, GOOD + "trust: {default: 0.6, kinds: {tool: 0.2}, speakers: {Zo\u00eb  B: 0.9}}\n").trust
    sources = (("file", None), ("tool", "Ana"), ("tool", "zoe b"))
    assert [trust.of_source(*source) for source in sources] == [0.6, 0.2, 0.9]
    config = CollectionConfig(name="a", description="b", trust=trust)
    assert CollectionConfig.model_validate(config.model_dump()).trust == trust
