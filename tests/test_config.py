"""Settings of a collection: what is wrong is told by file and field, and nothing wrong is taken."""

from pathlib import Path

import pytest

from pipelines.config import load_collection
from pipelines.errors import PalimpsestError

GOOD = "name: notes\ndescription: notes\n"


def load(folder: Path, text: str):
    (folder / "collection.yaml").write_text(text)
    return load_collection(folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\nname: b\ndescription: x\n", "name is given twice"),
        (GOOD + "metadata_schema: {type: 3}\n", "metadata_schema is no JSON Schema (draft 2020-12): type: 3"),
        (GOOD + 'metadata_schema: {$ref: "http://example.org/s.json"}\n', "metadata_schema refers to 'http://"),
        (GOOD + 'metadata_schema: {properties: {a: {$ref: "#/$defs/b"}}}\n', "'#/$defs/b', which is not in it"),
        (GOOD + "document_relations: ../relations.jsonl\n", "document_relations must be a file inside the collection"),
        (GOOD + "document_relations: /etc/passwd\n", "document_relations must be a file inside the collection"),
        (GOOD + "retention_days: 0\n", "retention_days input should be greater than 0"),
        ("name: [a\n", "not valid YAML"),
        ("- name\n", "must be a mapping"),
    ],
)
def test_a_wrong_setting_is_told_with_its_field(tmp_path, text, told):
    with pytest.raises(PalimpsestError) as e:
        load(tmp_path, text)
    assert told in str(e.value) and str(tmp_path) in str(e.value) and "\n" not in str(e.value)


def test_a_schema_may_refer_to_its_own_definitions(tmp_path):
    config = load(
        tmp_path, GOOD + 'metadata_schema: {$defs: {b: {type: string}}, properties: {a: {$ref: "#/$defs/b"}}}\n'
    )
    assert config.metadata_schema is not None


def test_the_same_key_may_stand_in_different_mappings(tmp_path):
    text = GOOD + "metadata_schema: {properties: {a: {type: string}, b: {type: string}}}\n"
    assert load(tmp_path, text).metadata_schema == {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
