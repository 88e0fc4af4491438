"""What recurs across the documents of a collection is hidden, and nothing else."""

import polars as pl

from palimpsest.memories.boilerplate import BOILERPLATE, find_boilerplate, set_apart
from palimpsest.store.tables import conform

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}


def tables(texts: list[list[str]], unit: str = "chunk") -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns memories and documents: a list of texts for each document."""
    documents = [{"document_id": f"d{n}", "uri": f"{n}.md", "is_current": True, **SCOPE} for n in range(len(texts))]
    memories = [
        {"memory_id": f"m{n}.{i}", "document_id": f"d{n}", "unit": unit, "text": t, "user_visible": True, **SCOPE}
        for n, document in enumerate(texts)
        for i, t in enumerate(document)
    ]
    return conform("memories", pl.DataFrame(memories)), conform("documents", pl.DataFrame(documents))


def hidden(texts: list[list[str]], unit: str = "chunk") -> set[str]:
    memories, documents = tables(texts, unit)
    apart = set_apart(memories, find_boilerplate(memories, documents))
    rows = apart.filter(~pl.col("user_visible"))
    assert all(BOILERPLATE in tags for tags in rows["tags"])
    assert apart.drop("user_visible", "tags").equals(memories.drop("user_visible", "tags"))
    return set(rows["memory_id"])


def test_a_line_of_a_tenth_of_the_documents_is_hidden_whatever_its_numbers():
    pages = [
        [f"Subscribe to calendar {n}: https://example.org/{n}", f"Topic {chr(97 + n)} was agreed."] for n in range(6)
    ]
    assert hidden(pages) == {f"m{n}.0" for n in range(6)}


def test_what_few_documents_or_long_texts_or_people_say_is_shown():
    said = [["We moved to Ghent."], ["We moved to Ghent."], ["We moved to Ghent."], ["Nothing new."], ["All well."]]
    assert hidden(said) == set()
    assert hidden([["x" * 300]] * 5) == set()
    assert hidden([["Good morning."]] * 6, unit="turn") == set()
    assert hidden([["Agreed."]] * 5 + [[f"Page {chr(97 + n % 26)}{chr(97 + n // 26)}"] for n in range(60)]) == set()
