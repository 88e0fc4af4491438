import polars as pl

from palimpsest.entities.entity_tables import entity_tables, find_mention_candidates, resolve_entities
from palimpsest.entities.find_names import entity_key
from palimpsest.memories.form import form_memories
from tests.memories.frames import chunk, chunks, config, document, documents


def memories_of(*texts, unit="statement", docs=None, **more):
    docs = docs or [document("notes.md", title="")]
    rows = [chunk(docs[i % len(docs)], t, i, **more) for i, t in enumerate(texts)]
    return form_memories(documents(*docs), chunks(*rows), config(unit))[0]


def resolved(memories):
    done = resolve_entities(find_mention_candidates(memories), memories)
    entities, mentions = done.entities, done.mentions
    names = dict(entities.select("entity_id", "name").iter_rows())
    texts = dict(memories.select("memory_id", "text").iter_rows())
    names_in = {}
    for m, e in mentions.select("memory_id", "entity_id").iter_rows():
        names_in.setdefault(texts[m], set()).add(names[e])
    return entities, mentions, names_in


def test_every_span_holds_the_spelling_of_its_entity():
    memories = memories_of("We met Ana Silva in New York.", "Later Ana Silva’s plan for COVID-19 came up.")  # noqa: RUF001
    entities, mentions, _ = resolved(memories)
    texts = dict(memories.select("memory_id", "text").iter_rows())
    spelled = {r["entity_id"]: {r["name"], *r["aliases"]} for r in entities.to_dicts()}
    assert mentions.height >= 3
    for m, e, a, b in mentions.select("memory_id", "entity_id", "char_start", "char_end").iter_rows():
        assert texts[m][a:b] in spelled[e]


def test_one_capitalised_word_at_a_sentence_start_needs_the_scope_to_know_it():
    unknown = resolved(memories_of("Lunch was fine."))[2]
    known = resolved(memories_of("Heron was fine.", "The plan for Heron is ready."))[2]
    assert unknown == {}
    assert known == {"Heron was fine.": {"Heron"}, "The plan for Heron is ready.": {"Heron"}}


def test_a_capitalised_word_that_texts_write_small_as_often_is_no_name_unless_it_is_a_person_or_a_title():
    small = ("The Board approved the Business Case.", "Every business case needs a board.", "A business case; a board")
    assert resolved(memories_of(*small))[2] == {}
    often = ("We met Heron.", "See https://heron.example/heron or `heron`.", "I saw a heron.")
    assert set().union(*resolved(memories_of(*often))[2].values()) == {"Heron"}
    speaks = resolved(memories_of("We met Rose.", "A rose is a rose.", unit="turn", speaker="Rose"))[2]
    assert speaks["We met Rose."] == {"Rose"}


def test_a_word_of_one_scope_is_not_a_name_because_it_is_a_person_of_another():
    said = memories_of("We met Rose.", unit="turn", speaker="Rose")
    other = memories_of("The Rose is a rose, and a rose.", docs=[document("other.md", title="", user_id="u1")])
    assert "The Rose is a rose, and a rose." not in resolved(pl.concat([said, other]))[2]


def test_a_number_on_the_next_line_is_no_part_of_a_name():
    text = "A long line about what is to be written on LinkedIn\n   1 September"
    assert resolved(memories_of(text))[2] == {text: {"LinkedIn"}}


def test_function_words_calendar_words_and_pronouns_are_no_names():
    names_in = resolved(memories_of("On Monday I saw that The End of May was near.", "Yes. Yeah, I know. It is OK."))[2]
    assert names_in == {"On Monday I saw that The End of May was near.": {"End"}}


def test_spellings_that_differ_by_case_or_accents_are_one_entity():
    entities, _, names_in = resolved(memories_of("We went to São Paulo.", "We like Sao Paulo.", "We left Sao Paulo."))
    assert entities.select("name", "aliases").rows() == [("Sao Paulo", ["São Paulo"])]
    assert all(names == {"Sao Paulo"} for names in names_in.values())


def test_an_acronym_explained_once_is_merged_with_its_long_form():
    entities, _, names_in = resolved(
        memories_of("We asked the Palo Alto Research Center (PARC).", "Then PARC answered.", "We saw BBC news.")
    )
    assert names_in["Then PARC answered."] == {"Palo Alto Research Center"}
    row = entities.filter(pl.col("name") == "Palo Alto Research Center").to_dicts()[0]
    assert "PARC" in row["aliases"]
    assert names_in["We saw BBC news."] == {"BBC"}


def test_an_acronym_with_two_explanations_is_its_own_entity():
    names_in = resolved(memories_of("See Art Of Baking (AOB).", "See Arms Of Brakel (AOB).", "We like AOB."))[2]
    assert names_in["We like AOB."] == {"AOB"}


def test_titles_are_found_in_texts_and_name_their_own_passages():
    docs = [document("a", title="Port Blair"), document("b", title="It"), document("c", title="Rome")]
    memories = memories_of(
        "The town lies by the sea.", "We went to port blair by ship.", "roman rome is not Rome.", docs=docs
    )
    _, mentions, names_in = resolved(memories)
    assert "Port Blair" in names_in["The town lies by the sea."]
    assert "Port Blair" in names_in["We went to port blair by ship."]
    assert not any("It" in names for names in names_in.values())
    spans = (
        mentions.join(memories, on="memory_id").filter(pl.col("text").str.starts_with("roman"))["char_start"].to_list()
    )
    assert spans == [18], "one word only as it is written, and whole"


def test_a_title_in_a_text_with_letters_of_many_bytes_has_character_offsets():
    docs = [document("a", title="Blue Door"), document("b", title="")]
    memories = memories_of("x", "Zoë grüßt “Blue Door” heute.", docs=docs)
    _, mentions, _ = resolved(memories)
    text = "Zoë grüßt “Blue Door” heute."
    found = mentions.join(memories.filter(text=text), on="memory_id").select("char_start", "char_end").rows()
    assert any(text[a:b] == "Blue Door" for a, b in found)


def test_code_names_and_ids_are_entities():
    names_in = resolved(memories_of("see PO-5630 and retry_limit in setup.py"))[2]
    assert names_in["see PO-5630 and retry_limit in setup.py"] == {"PO-5630", "retry_limit", "setup.py"}


def test_a_speaker_is_a_person_wherever_the_name_occurs():
    docs = [document("chat", title="chat", session_id="s")]
    entities, _, names_in = resolved(memories_of("Ana is late.", unit="turn", docs=docs, speaker="Ana"))
    assert names_in == {"Ana is late.": {"Ana"}} and entities["type"].to_list() == ["person"]


def test_scopes_share_no_entity_and_no_evidence():
    docs = [document("a", title="", user="u1"), document("b", title="", user="u2")]
    memories = memories_of("The plan for Heron is ready.", "Heron was fine.", docs=docs)
    entities, mentions, names_in = resolved(memories)
    assert names_in == {"The plan for Heron is ready.": {"Heron"}}
    assert entities["user_id"].to_list() == ["u1"] and mentions["user_id"].to_list() == ["u1"]
    both = memories_of("We saw Heron.", "They saw Heron.", docs=docs)
    assert resolved(both)[0]["entity_id"].n_unique() == 2


def test_an_incremental_build_equals_one_from_scratch():
    texts = ["We met Ana Silva.", "Heron was fine.", "The Palo Alto Research Center (PARC) wrote.", "nothing here"]
    before = memories_of(*texts)
    after = memories_of(*texts[1:], "The plan for Heron is ready.", "PARC answered.")
    earlier = entity_tables(before, before)["surfaces"]
    incremental, scratch = entity_tables(after, after, earlier), entity_tables(after.reverse(), after)
    for name in ("entities", "mentions", "merges", "surfaces"):
        assert incremental[name].equals(scratch[name]), name


def test_a_key_folds_case_accents_possessive_and_article():
    assert entity_key("The Élan’s") == "elan" == entity_key("ELAN")  # noqa: RUF001
