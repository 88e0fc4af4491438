"""Facts between names against the labels of Re-DocRED."""

import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.studies.redocred import main, measure_relations, read_documents

SENTENCES = ["Maria Keller was born in Berlin .", "John Smith was born in Paris .", "John Smith likes Berlin ."]


def document() -> dict[str, object]:
    places = ("Berlin", "Paris")
    names = (("Maria Keller", 0), ("Berlin", 0), ("John Smith", 1), ("Paris", 1))
    return {
        "title": "Two people",
        "sents": [s.split() for s in SENTENCES],
        "vertexSet": [[{"name": n, "sent_id": i, "type": "LOC" if n in places else "PER"}] for n, i in names],
        "labels": [
            {"r": "P19", "h": 0, "t": 1, "evidence": [0]},
            {"r": "P20", "h": 0, "t": 1, "evidence": [0]},
            {"r": "P20", "h": 2, "t": 1, "evidence": [0, 1]},
        ],
    }  # fmt: skip


def test_facts_between_names_are_right_where_the_relation_is_labeled():
    metrics = measure_relations([document()])
    # Maria's birthplace is labeled, John's is not; `like` is no relation of Wikidata.
    assert (metrics.judged, metrics.right) == (2, 1)
    # Of the triples, one is not in one sentence, and nothing states where Maria died.
    assert (metrics.golden, metrics.found) == (2, 1)
    assert metrics.not_judged["predicate like"] == 1


def test_the_sample_is_seeded_and_a_bad_file_is_named(tmp_path, capsys):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([{**document(), "title": str(i)} for i in range(9)]))
    titles = [[d["title"] for d in read_documents(path, 3, seed)] for seed in (1, 1, 2)]
    assert titles[0] == titles[1] != titles[2] and len(titles[0]) == 3
    path.write_text("{}[")
    with pytest.raises(PalimpsestError, match="Re-DocRED"):
        read_documents(path, 3, 1)
    assert main([str(tmp_path / "none.json")]) == 2 and "none.json" in capsys.readouterr().err
