import numpy as np
import polars as pl

from palimpsest.entities.topics import build_topics
from palimpsest.store.tables import conform
from tests.memories.frames import chunk, document, formed, word_vectors

THEMES = {
    "cooking": ["simmer onions butter", "butter pastry oven", "oven onions soup"],
    "sailing": ["harbour rigging keel", "keel anchor sails", "anchor harbour rigging"],
    "banking": ["ledger interest loans", "loans mortgage interest", "mortgage ledger audit"],
}


def corpus(users=("u",)):
    docs, rows = [], []
    for user in users:
        for theme, texts in THEMES.items():
            for n in range(4):
                doc = document(f"{theme}{n}", user=user, title=theme.capitalize())
                docs.append(doc)
                rows += [chunk(doc, f"{t} {theme}", i) for i, t in enumerate(texts)]
    return formed(docs, rows, "chunk")


def made(inputs):
    return build_topics(inputs.memories, inputs.documents, word_vectors(inputs.memories, 64))


def test_documents_about_one_thing_share_a_topic_named_by_a_phrase_that_they_use():
    inputs = corpus()
    topics, _, members = made(inputs)
    of = members.join(topics.select("topic_id", "label"), on="topic_id").join(inputs.memories, on="memory_id")
    first = of.sort("relevance", descending=True).unique("memory_id", keep="first")
    for theme in THEMES:
        mine = first.filter(pl.col("text").str.contains(theme))
        assert mine["label"].n_unique() == 1
        words = set(" ".join(mine["text"]).lower().split())
        assert set(mine["label"][0].lower().split()) <= words
    assert topics["size"].to_list() == [12, 12, 12]


def test_a_label_is_a_noun_in_its_commonest_spelling_and_no_inflection_of_another():
    docs = [document(f"d{i}", title="") for i in range(8)]
    sentences = (
        "We repaired a lithium battery.",
        "Two lithium batteries and a lithium battery failed.",
        "The lithium Battery",
    )
    other = ("Nobody wants the rain.", "A rain came.", "They measure the rain at noon.")
    texts = [" ".join(sentences), " ".join(other)] * 4
    inputs = formed(docs, [chunk(d, t) for d, t in zip(docs, texts, strict=True)], "chunk")
    topics, _, _ = build_topics(inputs.memories, inputs.documents, word_vectors(inputs.memories, 64))
    assert set(topics["label"]) == {"lithium battery", "rain"}


def test_people_are_no_topics():
    docs = [document(f"d{i}", title="", session_id="s") for i in range(8)]
    texts = ["The pottery of Mira Vance, who loves the pottery.", "The harbour is wide; Ruben sails in the harbour."]
    rows = [chunk(d, texts[i % 2], speaker="Ruben") for i, d in enumerate(docs)]
    inputs = formed(docs, rows, "turn")
    scope = {"collection": "c", "user_id": "u", "project_id": ""}
    mira = {"entity_id": "mira", "name": "Mira Vance", "aliases": ["Mira"], "type": "person"}
    entities = conform("entities", pl.DataFrame([scope | mira]))
    topics, _, _ = build_topics(inputs.memories, inputs.documents, word_vectors(inputs.memories, 64), entities)
    words = {w for label in topics["label"] for w in label.lower().split()}
    assert words and not words & {"mira", "vance", "ruben"}


def test_a_topic_with_the_name_of_an_entity_of_its_scope_is_that_entity():
    inputs = corpus(("u", "v"))
    vectors = word_vectors(inputs.memories, 64)
    before, _, _ = build_topics(inputs.memories, inputs.documents, vectors)
    of_u = before.filter(user_id="u")["label"]
    scope = {"collection": "c", "user_id": "u", "project_id": ""}
    names = [{"entity_id": "e1", "name": of_u[0].upper()}, {"entity_id": "e2", "name": "Nobody"}]
    entities = conform("entities", pl.DataFrame([scope | name | {"type": "concept"} for name in names]))
    topics, _, members = build_topics(inputs.memories, inputs.documents, vectors, entities)
    assert topics.filter(topic_id="e1").select("user_id", "label").rows() == [("u", of_u[0])]
    assert topics.height == before.height and "e2" not in topics["topic_id"]
    assert members.filter(topic_id="e1").height == 12


def test_a_new_document_leaves_the_topics_of_others_as_they_were():
    inputs = corpus()
    doc = document("new", title="Sailing")
    docs = [document(f"{t}{n}", title=t.capitalize()) for t in THEMES for n in range(4)]
    rows = [chunk(d, f"{x} {d['uri'][:-1]}", i) for d in docs for i, x in enumerate(THEMES[d["uri"][:-1]])]
    grown = formed([*docs, doc], [*rows, chunk(doc, "harbour rigging keel sailing")], "chunk")
    before, after = made(inputs), made(grown)
    assert set(before[0]["topic_id"]) <= set(after[0]["topic_id"])
    kept = after[2].join(before[2], on=["topic_id", "memory_id"], how="semi")
    assert kept.height == before[2].height


def test_a_long_document_is_about_several_things():
    doc = document("long", title="")
    themes = list(THEMES.items())
    texts = [f"{x} {t}" for t, sentences in themes for i in range(11) for x in (sentences[i % 3] + f" note{i}",)]
    inputs = formed([doc], [chunk(doc, t, i) for i, t in enumerate(texts * 2)], "chunk")
    assert made(inputs)[0].height > 1


def test_relevance_is_rounded_and_over_the_threshold():
    _, _, members = made(corpus())
    assert members["relevance"].min() >= 0.3 and members["relevance"].equals(members["relevance"].round(2))
    assert members.group_by("memory_id").len()["len"].max() <= 2


def test_a_small_scope_is_one_topic():
    doc = document("a", title="Falcon")
    topics, edges, members = made(formed([doc], [chunk(doc, "Falcon rockets fly.")], "chunk"))
    assert topics.height == 1 and edges.is_empty() and members.height == 1
    assert topics["label"][0] == "Falcon rockets"


def test_scopes_have_topics_of_their_own_that_say_the_same_apart_or_together():
    both, alone = made(corpus(("u1", "u2"))), made(corpus(("u1",)))
    for table, single in zip(both, alone, strict=True):
        assert table.filter(user_id="u1").equals(single)


def test_row_order_changes_nothing():
    inputs = corpus()
    vectors = word_vectors(inputs.memories, 64)
    order = np.random.default_rng(3).permutation(inputs.memories.height)
    a = build_topics(inputs.memories, inputs.documents, vectors)
    b = build_topics(inputs.memories[order], inputs.documents.reverse(), vectors[order])
    assert all(x.equals(y) for x, y in zip(a, b, strict=True))


def test_what_is_not_current_belongs_to_no_topic():
    old, new = document("a", seq=1, current=False), document("a", seq=2)
    inputs = formed([old, new], [chunk(old, "Falcon gone."), chunk(new, "Falcon here.")], "chunk")
    _, _, members = made(inputs)
    texts = dict(inputs.memories.select("memory_id", "text").iter_rows())
    assert {texts[m] for m in members["memory_id"]} == {"Falcon here."}
    only = formed([old], [chunk(old, "Falcon gone.")], "chunk")
    assert all(t.is_empty() for t in made(only))


def test_many_topics_hang_below_a_few_broader_ones():
    rng = np.random.default_rng(0)
    docs = [document(f"d{i}", title="") for i in range(130)]
    subjects = [
        "heron",
        "otter",
        "weasel",
        "badger",
        "marten",
        "pike",
        "trout",
        "stork",
        "crane",
        "beaver",
        "toad",
        "newt",
    ]
    inputs = formed(docs, [chunk(d, f"We saw the {subjects[i % 12]} today.") for i, d in enumerate(docs)], "chunk")
    centers = rng.normal(size=(12, 16))
    place = {d["document_id"]: centers[i % 12] for i, d in enumerate(docs)}
    vectors = np.stack([place[d] for d in inputs.memories["document_id"]]).astype(np.float32)
    vectors += rng.normal(scale=0.1, size=vectors.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    topics, edges, members = build_topics(inputs.memories, inputs.documents, vectors)
    below = edges.filter(kind="subtopic_of")
    above = set(below["target_id"])
    assert set(topics["label"]) == set(subjects)
    assert below["source_id"].n_unique() == below.height == 9 and not above & set(below["source_id"])
    assert set(members["topic_id"]) == set(topics["topic_id"])
    size = dict(topics.select("topic_id", "size").iter_rows())
    assert sum(size[t] for t in set(topics["topic_id"]) - set(below["source_id"])) == 130
