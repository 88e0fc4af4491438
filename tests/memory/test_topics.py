import numpy as np
import polars as pl

from pipelines.memory.topics import build_topics
from tests.memory.frames import chunk, document, formed, word_vectors

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


def test_documents_about_one_thing_share_a_topic_named_by_their_words():
    inputs = corpus()
    topics, _, held = made(inputs)
    of = held.join(topics.rename({"user_id": "u", "collection": "c"}), on="topic_id").join(
        inputs.memories, on="memory_id"
    )
    first = of.sort("relevance", descending=True).unique("memory_id", keep="first")
    for theme in ("banking",):
        labels = first.filter(pl.col("text").str.contains(theme))["label"].unique()
        assert len(labels) == 1 and theme in labels[0]
    assert all(len(label.split(", ")) <= 3 for label in topics["label"])
    assert topics["size"].sum() == inputs.memories.height


def test_relevance_is_rounded_and_over_the_threshold():
    _, _, held = made(corpus())
    assert held["relevance"].min() >= 0.3 and held["relevance"].equals(held["relevance"].round(2))
    assert held.group_by("memory_id").len()["len"].max() <= 2


def test_a_small_scope_is_one_topic():
    doc = document("a", title="Falcon")
    topics, edges, held = made(formed([doc], [chunk(doc, "Falcon rockets fly.")], "chunk"))
    assert topics.height == 1 and edges.is_empty() and held.height == 1
    assert "falcon" in topics["label"][0]


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
    _, _, held = made(inputs)
    texts = dict(inputs.memories.select("memory_id", "text").iter_rows())
    assert {texts[m] for m in held["memory_id"]} == {"Falcon here."}
    only = formed([old], [chunk(old, "Falcon gone.")], "chunk")
    assert all(t.is_empty() for t in made(only))


def test_many_topics_get_broader_ones_above_them():
    rng = np.random.default_rng(0)
    docs = [document(f"d{i}", title="") for i in range(130)]
    inputs = formed(
        docs, [chunk(d, f"group{chr(97 + i % 10)} item{chr(97 + i % 13)} word") for i, d in enumerate(docs)], "chunk"
    )
    centres = rng.normal(size=(10, 16))
    place = {d["document_id"]: centres[i % 10] for i, d in enumerate(docs)}
    vectors = np.stack([place[d] for d in inputs.memories["document_id"]]).astype(np.float32)
    vectors += rng.normal(scale=0.1, size=vectors.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    topics, edges, held = build_topics(inputs.memories, inputs.documents, vectors)
    below = edges.filter(kind="subtopic_of")
    assert below["source_id"].n_unique() == held["topic_id"].n_unique() == below.height
    assert set(below["source_id"]) | set(below["target_id"]) == set(topics["topic_id"])
    assert topics["label"].n_unique() == topics.height
