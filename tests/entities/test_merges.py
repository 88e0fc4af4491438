"""Which names become one, why, and which never do. `resolved` is the real code over real memories."""

import pytest

from palimpsest.entities.entity_tables import find_mention_candidates, resolve_entities
from palimpsest.memories.form import form_memories
from tests.memories.frames import chunk, chunks, config, document, documents


def resolved(*texts, unit="statement", docs=None, speakers=None):
    """Each text is a memory of its own document, unless `docs` gives (document, texts)."""
    docs = docs or [(document(f"d{i}.md", title=""), [t]) for i, t in enumerate(texts)]
    rows = [
        chunk(d, t, n, speaker=speakers[n] if speakers else None)
        for d, sentences in docs
        for n, t in enumerate(sentences)
    ]
    table = documents(*(d for d, _ in docs))
    memories = form_memories(table, chunks(*rows), config(unit))[0]
    return memories, resolve_entities(find_mention_candidates(memories), memories, table)


def named(*texts, **more):
    """Maps each text to the names of the entities that it mentions."""
    memories, done = resolved(*texts, **more)
    names = dict(done.entities.select("entity_id", "name").iter_rows())
    text_of = dict(memories.select("memory_id", "text").iter_rows())
    out = {t: set() for t in text_of.values()}
    for m, e in done.mentions.select("memory_id", "entity_id").iter_rows():
        out[text_of[m]].add(names[e])
    return out


def merges(*texts, **more):
    return set(resolved(*texts, **more)[1].merges.select("alias", "name", "why").iter_rows())


@pytest.mark.parametrize(
    ("text", "alias", "name"),
    [
        ("The Rill Basin Survey (RBS) began.", "RBS", "Rill Basin Survey"),
        ("The RBS (Rill Basin Survey) began.", "RBS", "Rill Basin Survey"),
        ("RBS is short for Rill Basin Survey.", "RBS", "Rill Basin Survey"),
        ("RBS stands for Rill Basin Survey.", "RBS", "Rill Basin Survey"),
        ("The RBS, short for Rill Basin Survey, began.", "RBS", "Rill Basin Survey"),
        ("We filled in the field report form (FRF) and left.", "FRF", "field report form"),
        ("A small electrogram chart (EGC) hung there.", "EGC", "electrogram chart"),
        ("The FRF is the field report form.", "FRF", "field report form"),
        ("We met Kestrel, also called Windhover, there.", "Windhover", "Kestrel"),
        ("The old tool Kestrel, formerly Windhover, is gone.", "Windhover", "Kestrel"),
        ("I saw Ansel Moreau, who goes by Tiptoe now.", "Tiptoe", "Ansel Moreau"),
        ("Ansel Moreau cooks; everyone calls him Tiptoe.", "Tiptoe", "Ansel Moreau"),
        ("They renamed Windhover to Kestrel in May.", "Kestrel", "Windhover"),
        ("The Kestrel is our kite and carries the model number KT-20.", "KT-20", "Kestrel"),
        ("Runa Moreau has married and signs her letters as Runa Feldt.", "Runa Feldt", "Runa Moreau"),
    ],
)
def test_names_that_a_text_states_as_one_are_merged_and_the_evidence_is_kept(text, alias, name):
    memories, done = resolved(text)
    found = done.merges.filter(alias=alias).select("name", "memory_id").rows()
    assert found == [(name, memories["memory_id"][0])]
    row = done.entities.filter(name=name).to_dicts()[0]
    assert alias in row["aliases"]


@pytest.mark.parametrize(
    "text",
    [
        "We read a book by Ansel Moreau, also called Tides of May.",  # the book is called so
        "Ansel Moreau called Runa Feldt.",
        "Ansel Moreau is now Head of Tides.",
        "Runa Moreau (née Feldt) came.",  # her whole family is called Feldt
        "The review (IT) was late.",
        "He fixed Kestrel (KT-20).",  # one memory: as likely the number of a ticket
    ],
)
def test_what_only_looks_like_such_a_statement_merges_nothing(text):
    assert merges(text) == set()


def test_a_name_stated_as_two_things_is_its_own_entity():
    texts = ("We saw Kestrel, also called Windhover.", "We saw Merlin, also called Windhover.", "I like Windhover.")
    assert named(*texts)["I like Windhover."] == {"Windhover"}


def test_letters_stand_for_words_only_in_capitals():
    texts = ("The Inland Canal Engineers (ICE) met.", "We asked ICE.", "They sell Ice here.")
    found = named(*texts)
    assert found["We asked ICE."] == {"Inland Canal Engineers"} and found["They sell Ice here."] == {"Ice"}


def test_a_first_name_is_the_only_person_it_can_be():
    known = ("We asked Ansel Moreau, who agreed.", "We thanked Ansel Moreau.")
    found = named(*known, "The idea came from Ansel.", "Later Moreau said no.")
    assert found["The idea came from Ansel."] == {"Ansel Moreau"} == found["Later Moreau said no."]
    # named once only: in another document, another Ansel may be meant
    assert named(*known[:1], "The idea came from Ansel.")["The idea came from Ansel."] == {"Ansel"}


def test_a_first_name_of_two_people_is_nobody_but_where_a_document_names_one_of_them():
    one = document("one.md", title="")
    two = document("two.md", title="")
    three = document("three.md", title="")
    found = named(
        docs=[
            (one, ["Jon Moreau said yes.", "The plan of Jon is good."]),
            (two, ["We heard that Jon Feldt said no.", "The answer of Jon came late."]),
            (three, ["The dog of Jon barks."]),
        ]
    )
    assert found["The plan of Jon is good."] == {"Jon Moreau"}
    assert found["The answer of Jon came late."] == {"Jon Feldt"}
    assert found["The dog of Jon barks."] == {"Jon"}


def test_people_in_a_documents_metadata_resolve_names_in_it():
    minutes = document("m.md", title="", metadata='{"attendees": ["Ansel Moreau", "Runa Feldt <runa@x.example>"]}')
    other = document("o.md", title="", metadata='{"author": "Ansel Drach"}')
    found = named(docs=[(minutes, ["The idea came from Ansel.", "A cake from Runa."]), (other, ["By Ansel, in May."])])
    assert found["The idea came from Ansel."] == {"Ansel Moreau"} and found["By Ansel, in May."] == {"Ansel Drach"}
    assert found["A cake from Runa."] == {"Runa Feldt"}


def test_titles_stand_for_the_bare_name_but_mr_and_mrs_are_two_people():
    assert named("We saw Dr. Moreau.", "Then Moreau left.")["Then Moreau left."] == {"Moreau"}
    assert ("Dr. Moreau", "Moreau", "title") in merges("We saw Dr. Moreau.", "Then came Moreau.")
    found = named("I met Mr. Drach.", "I met Mrs. Drach.", "I met Drach.")
    assert found == {"I met Mr. Drach.": {"Mr. Drach"}, "I met Mrs. Drach.": {"Mrs. Drach"}, "I met Drach.": {"Drach"}}


def test_an_initial_is_resolved_to_the_only_name_that_it_fits():
    assert ("A. Moreau", "Ansel Moreau", "initial") in merges("We met Ansel Moreau.", "Signed by A. Moreau.")
    assert merges("We met Ansel Moreau.", "We met Anna Moreau.", "Signed by A. Moreau.") == set()


def test_a_cut_off_first_name_is_the_person_unless_both_are_there():
    found = merges("We asked Benedikta Moreau, who agreed.", "Dear Ben, please come.")
    assert found == {("Ben", "Benedikta Moreau", "nickname")}
    assert merges("Dear Ben, ask Benedikta Moreau, who knows.", "Dear Ben, please come.") == set()
    assert merges("We asked Paula Moreau, who agreed.", "Dear Paul, please come.") == set()


def test_hyphens_and_plurals_are_spellings_but_surnames_are_no_plurals():
    assert ("Windhover", "Wind-Hover", "spelling") in merges("I like Wind-Hover.", "I like Windhover.")
    assert ("Kestrels", "Kestrel", "plural") in merges("The Kestrel flies.", "We sold forty Kestrels.")
    assert merges("We met Adam.", "We met Adams.") == set()


def test_a_firm_may_be_short_but_a_place_or_a_thing_named_after_it_is_another():
    assert merges("Moreau Batteries supplies the cells.", "The cells from Moreau are light.") == {
        ("Moreau", "Moreau Batteries", "short form of a firm")
    }
    assert merges("Lindow Batteries supplies the cells.", "We work in Lindow.", "They like Lindow.") == set()
    assert merges("The Kestrel Museum opened.", "I like Kestrel.") == set()
    found = named("The Heron sends the data.", "The meeting is in the Heron room.")
    assert found == {"The Heron sends the data.": {"Heron"}, "The meeting is in the Heron room.": {"Heron room"}}


def test_a_body_with_its_article_is_the_only_such_body_of_its_document():
    doc, other = document("a.md", title=""), document("b.md", title="")
    found = named(docs=[(doc, ["The Rill River Trust pays.", "We asked the Trust."]), (other, ["We asked the Trust"])])
    assert found["We asked the Trust."] == {"Rill River Trust"} and found["We asked the Trust"] == {"Trust"}


def test_a_title_with_brackets_names_one_of_several_in_its_own_document():
    planet, metal = document("p.md", title="Quill (planet)"), document("m.md", title="Quill (metal)")
    found = named(docs=[(planet, ["We see that Quill is far."]), (metal, ["We see that Quill is soft."])])
    assert found == {
        "We see that Quill is far.": {"Quill (planet)"},
        "We see that Quill is soft.": {"Quill (metal)"},
    }


def test_an_office_is_its_holder_where_the_document_states_it():
    doc, other = document("a.md", title=""), document("b.md", title="")
    texts = ["Ansel Moreau is the head of support.", "Ask the head of support."]
    found = named(docs=[(doc, texts), (other, ["The head of support was away"])])
    assert found["Ask the head of support."] == {"Ansel Moreau"}
    assert found["The head of support was away"] == set()


def test_no_name_is_one_with_a_name_of_another_scope():
    mine = document("a.md", title="", user="u1")
    theirs = document("b.md", title="", user="u2")
    found = named(docs=[(mine, ["We asked Ansel Moreau, who agreed."]), (theirs, ["The idea came from Ansel."])])
    assert found["The idea came from Ansel."] == {"Ansel"}


def test_call_me_names_the_speaker():
    doc = document("chat", title="chat", session_id="s")
    found = named(docs=[(doc, ["Just call me Tip.", "A cake for Tip!"])], unit="turn", speakers=["Ansel", "Runa"])
    assert found["A cake for Tip!"] == {"Ansel"}


def test_a_speakers_name_after_a_greeting_is_no_surname():
    doc = document("chat", title="chat", session_id="s")
    found = merges(docs=[(doc, ["Awesome John! Well done.", "Thanks, Mary."])], unit="turn", speakers=["Mary", "John"])
    assert found == set()


def test_names_do_not_run_over_a_short_line_or_a_for():
    assert named("Regards\nAnsel Moreau\nRill River Trust")["Regards\nAnsel Moreau\nRill River Trust"] == {
        "Ansel Moreau",
        "Rill River Trust",
    }
    assert named("It was made by Kestrel Works for the Rill River Trust.") == {
        "It was made by Kestrel Works for the Rill River Trust.": {"Kestrel Works", "Rill River Trust"}
    }
    assert named("We met the Institute for Tides.") == {"We met the Institute for Tides.": {"Institute for Tides"}}
