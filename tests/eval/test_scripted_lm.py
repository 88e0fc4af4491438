"""The scripted language model answers each toolkit's prompts in that toolkit's format."""

import json

from palimpsest_eval.peers.scripted_lm import OF_TEXT, answer, statements, things

TURN = "[1:56 pm on 8 May, 2023] Melanie: I met Caroline in Boston. It was great!"
PARAGRAPH = "Radio City\nRadio City is a station in India. It plays songs of Asha Bhosle."


def test_statements_join_the_speaker_or_the_title_with_what_a_sentence_names():
    assert [(s.subject, s.relation, s.other) for s in statements(TURN)] == [
        ("Melanie", "I met", "Caroline"),
        ("Melanie", "I met Caroline in", "Boston"),
    ]
    assert statements(TURN)[0].sentence == "Melanie: I met Caroline in Boston."
    assert ("Radio City", "India") in {(s.subject, s.other) for s in statements(PARAGRAPH)}
    assert statements("") == [] and len(statements(" ".join(f"Ada met Bo{i}." for i in range(50)))) == OF_TEXT
    assert things("Who joined the travel club in Boston?") == ["Boston", "travel club", "joined"]


def test_lightrag_gets_rows_with_its_delimiters():
    prompt = (
        "Extract entities and relationships from the `---Input Text---` section\n---Input Text---\n```\n{}\n```\n\n"
    )
    rows = answer(["system", prompt.format(TURN)]).splitlines()
    assert rows[0].split("<|#|>") == ["entity", "Melanie", "Concept", "Melanie: I met Caroline in Boston."]
    assert [len(row.split("<|#|>")) for row in rows] == [4, 4, 4, 5, 5, 1] and rows[-1] == "<|COMPLETE|>"
    assert answer(["system", "Based on the last extraction task, ..."]) == "<|COMPLETE|>"
    keywords = answer(["an expert keyword extractor\nUser Query: Who met Caroline?\n\n---Output---\nOutput:"])
    assert json.loads(keywords)["low_level_keywords"][0] == "Caroline"


def test_graphiti_gets_facts_between_entities_of_its_list_and_an_unknown_prompt_an_empty_object():
    found = json.loads(answer(["system", f"<CURRENT MESSAGES>\n{TURN}\n</CURRENT MESSAGES>"]))
    names = {entity["name"] for entity in found["extracted_entities"]}
    assert names == {"Melanie", "Caroline", "Boston"}
    assert all({e["source_entity_name"], e["target_entity_name"]} <= names for e in found["edges"])
    same = '<ENTITIES>[{"id": 0, "name": "boston"}, {"id": 1, "name": "Rome"}]</ENTITIES>'
    known = '<EXISTING ENTITIES>[{"candidate_id": 7, "name": "Boston"}]</EXISTING ENTITIES>'
    rows = json.loads(answer(["system", same + known]))["entity_resolutions"]
    assert [row["duplicate_candidate_id"] for row in rows] == [7, -1]
    times = answer(["system", 'FACTS with their REFERENCE TIMES <FACTS>[{"fact": "a"}, {"fact": "b"}]</FACTS>'])
    assert len(json.loads(times)["timestamps"]) == 2
    assert answer(["hello"]) == "{}"


def test_hipporag_gets_entities_triples_and_a_filter_of_facts():
    entities = answer(["extract named entities from the given paragraph", "one", "shot", PARAGRAPH])
    assert {"Radio City", "India", "Asha Bhosle"} <= set(json.loads(entities)["named_entities"])
    triples = answer(["construct an RDF graph", f"Paragraph:\n```\n{PARAGRAPH}\n```\n\n{entities}"])
    assert all(len(triple) == 3 and all(triple) for triple in json.loads(triples)["triples"])
    facts = json.dumps({"fact": [["asha", "sang in", "hindi"], ["bo", "lives in", "rome"]]})
    prompt = f"[[ ## question ## ]]\nWho lives in Rome?\n\n[[ ## fact_before_filter ## ]]\n{facts}\n\nRespond"
    assert '{"fact": [["bo", "lives in", "rome"]]}' in answer(["system", prompt])
