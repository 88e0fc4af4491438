from datetime import UTC, datetime
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palimpsest.memories.chunks import Chunk, chunk_documents
from palimpsest.sources.extracted import SUITE_ROW, ExtractedDocument, Segment, Source
from palimpsest.sources.readers.text_files import read_markdown
from palimpsest.store.collection_config import Limits, Unit
from palimpsest.text.tokenizer import count_tokens_batch
from tests.chunks.one_document import chunk_document

SENTENCE = "The quick brown fox number {} jumps over the lazy dog near the river bank today."
UNITS: tuple[Unit, ...] = get_args(Unit)


def markdown(text: str) -> ExtractedDocument:
    return read_markdown(Source("a.md", ".md", text.encode()), Limits()).documents[0]


def paragraphs(n: int, first: int = 0) -> str:
    return "\n\n".join(" ".join(SENTENCE.format(first + 4 * i + j) for j in range(4)) for i in range(n)) + "\n\n"


def check(document: ExtractedDocument, chunks: list[Chunk]) -> None:
    assert [c.ordinal for c in chunks] == list(range(len(chunks)))
    assert [c.token_count for c in chunks] == count_tokens_batch([c.text for c in chunks])
    for c in chunks:
        assert c.text == document.text[c.char_start : c.char_end]
        assert c.text.strip() and c.text == c.text.strip("\n")  # code keeps its indent


def conversation() -> ExtractedDocument:
    text = "Ana: I moved to Lyon. It is warm.\nBo: Nice!"
    when = datetime(2024, 5, 1, tzinfo=UTC)
    segments = (
        Segment(5, 33, "turn", None, None, "Ana", when),
        Segment(38, 43, "turn", None, None, "Bo", None),
    )
    return ExtractedDocument(uri="c.jsonl", media_type="x", text=text, segments=segments)


def test_turns_are_chunks_statements_or_packed_with_their_speakers_in_the_text() -> None:
    document = conversation()
    chunks = chunk_document(document, "turn")
    check(document, chunks)
    assert [(c.text, c.speaker, c.said_at, c.kind) for c in chunks] == [
        ("I moved to Lyon. It is warm.", "Ana", datetime(2024, 5, 1, tzinfo=UTC), "turn"),
        ("Nice!", "Bo", None, "turn"),
    ]
    chunks = chunk_document(conversation(), "statement")
    assert [(c.text, c.speaker) for c in chunks] == [
        ("I moved to Lyon.", "Ana"),
        ("It is warm.", "Ana"),
        ("Nice!", "Bo"),
    ]
    (chunk,) = chunk_document(conversation(), "chunk")
    assert chunk.text == conversation().text
    assert chunk.speaker is None


def test_a_suite_row_is_one_chunk_and_an_unbroken_run_of_letters_none_without_end() -> None:
    text = paragraphs(60).strip()
    row = ExtractedDocument(uri="c#1", media_type=SUITE_ROW, text=text, segments=(Segment(0, len(text), "prose"),))
    for unit in UNITS:
        (chunk,) = chunk_document(row, unit)
        assert chunk.text == text and chunk.token_count > 800
    for text in ("a" * 30_000, "x" + " \n" * 20_000 + "y", "# " + "*" * 30_000, "# h\n" * 4_000):
        for unit in UNITS:
            assert all(len(c.text) <= 10_000 for c in chunk_document(markdown(text), unit))
    assert count_tokens_batch(["word " * 1000]) == [1000]


def test_a_long_section_is_cut_into_chunks_of_300_to_800_tokens_that_overlap() -> None:
    document = markdown("# Foxes\n\n" + paragraphs(60))
    chunks = chunk_document(document, "chunk")
    check(document, chunks)
    assert len(chunks) > 5
    assert all(300 <= c.token_count <= 800 for c in chunks)
    for a, b in pairwise(chunks):
        shared = document.text[b.char_start : a.char_end]
        assert shared.startswith("The quick") and shared.endswith("today.")  # whole sentences
        assert 0.05 <= count_tokens_batch([shared])[0] / b.token_count <= 0.15
    assert {c.heading for c in chunks} == {"Foxes"}


def test_large_sections_are_never_mixed_and_small_neighbours_share_a_chunk() -> None:
    text = (
        "# Book\n\n## One\n\n"
        + paragraphs(10)
        + "## Two\n\nShort.\n\n## Three\n\nBrief.\n\n## Four\n\n"
        + paragraphs(10)
    )
    chunks = chunk_document(markdown(text), "chunk")
    headings = [c.heading for c in chunks]
    assert headings == sorted(headings, key=["Book > One", "Book", "Book > Four"].index)
    (small,) = [c for c in chunks if c.heading == "Book"]
    assert small.text == "## Two\n\nShort.\n\n## Three\n\nBrief."


def test_tables_and_code_that_fit_stay_whole_and_a_larger_table_is_cut_between_rows() -> None:
    table = "| a | b |\n|---|---|\n" + "".join(f"| {i} | value {i} |\n" for i in range(60))
    code = "```\n" + "".join(f"value_{i} = {i}\n\n" for i in range(60)) + "```\n"
    text = "# T\n\n" + paragraphs(4) + table + "\n" + paragraphs(4) + code + "\n" + paragraphs(3)
    document = markdown(text)
    chunks = chunk_document(document, "chunk")
    check(document, chunks)
    assert any(table.strip() in c.text for c in chunks)
    assert any(code.strip() in c.text for c in chunks)
    assert all(c.token_count <= 800 for c in chunks)
    document = markdown("| a | b |\n|---|---|\n" + "".join(f"| {i} | some longer value {i} |\n" for i in range(400)))
    chunks = chunk_document(document, "chunk")
    check(document, chunks)
    assert len(chunks) > 3
    assert all(c.text.startswith("|") and c.text.endswith("|") and c.kind == "table" for c in chunks)


def test_a_heading_stays_with_what_follows_it_and_an_edit_leaves_other_sections_alone() -> None:
    document = markdown("".join(f"# Part {i}\n\n" + paragraphs(5, i) for i in range(4)))
    assert all(not c.text.split("\n")[-1].startswith("#") for c in chunk_document(document, "chunk"))
    sections = [f"# Part {i}\n\n{paragraphs(12, 100 * i)}" for i in range(4)]
    before = {c.text for c in chunk_document(markdown("".join(sections)), "chunk")}
    sections[2] = sections[2].replace("lazy", "sleepy and really very tired", 1)
    after = {c.text for c in chunk_document(markdown("".join(sections)), "chunk")}
    part_two = {c.text for c in chunk_document(markdown(sections[2]), "chunk")}
    assert after - before <= part_two
    assert len(after - before) < len(after)


def test_statements_carry_their_heading_and_leave_out_list_marks() -> None:
    document = markdown(
        "# Rules\n\nPay in May. Ask Dr. Wu.\n\n- no cash\n- cards only\n\n## Empty\n\n# Next\n\nDone.\n"
    )
    chunks = chunk_document(document, "statement")
    check(document, chunks)
    assert [(c.text, c.heading) for c in chunks] == [
        ("Pay in May.", "Rules"), ("Ask Dr. Wu.", "Rules"), ("no cash", "Rules"), ("cards only", "Rules"),
        ("## Empty", "Rules > Empty"), ("Done.", "Next"),
    ]  # fmt: skip


def test_a_document_without_turns_gives_paragraphs_and_its_first_page_is_recorded() -> None:
    document = markdown("# A\n\nOne. Two.\n\nThree.\n")
    assert [c.text for c in chunk_document(document, "turn")] == ["One. Two.", "Three."]
    text = paragraphs(3) + paragraphs(3, 50)
    half = len(paragraphs(3))
    segments = (Segment(0, half - 2, "prose", page=4), Segment(half, len(text) - 2, "prose", page=5))
    document = ExtractedDocument(uri="a.pdf", media_type="application/pdf", text=text, segments=segments)
    chunks = chunk_document(document, "chunk")
    check(document, chunks)
    assert chunks[0].page == 4 and chunks[-1].page in (4, 5)


def test_chunks_do_not_depend_on_what_else_is_cut_and_no_documents_give_none() -> None:
    documents = [markdown("# A\n\n" + paragraphs(n, n)) for n in (1, 9, 30)] + [conversation()]
    for unit in UNITS:
        together = chunk_documents(documents, unit)
        assert together == [chunk_document(d, unit) for d in documents]
        assert together == chunk_documents(documents[::-1], unit)[::-1]
    for unit in UNITS:
        assert chunk_documents([], unit) == []


_BLOCKS = st.one_of(
    st.text(alphabet=st.sampled_from("abc XYZ.!?-*_#>`|[]()\n\té漢。"), min_size=1, max_size=80),
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###"]), st.text(alphabet="abc >*[]", max_size=20)),
    st.builds("```\n{}\n```".format, st.text(alphabet="abc \n", max_size=60)),
    st.builds(lambda n: "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * n, st.integers(0, 90)),
    st.builds(lambda n: SENTENCE.format(n) * 1 + (" " + SENTENCE.format(n)) * (n % 60), st.integers(0, 200)),
    st.builds(lambda n: "\n".join(f"- item {i}" for i in range(n)), st.integers(1, 40)),
)


@example(blocks=["X) >"], unit="statement")  # a letter before a bracket is no list mark where no word follows
@settings(max_examples=50)
@given(blocks=st.lists(_BLOCKS, min_size=1, max_size=12), unit=st.sampled_from(UNITS))
def test_text_at_the_span_is_the_chunk_and_no_word_is_lost(blocks: list[str], unit: Unit) -> None:
    document = markdown("\n\n".join(blocks) + "\n\nend")
    chunks = chunk_document(document, unit)
    check(document, chunks)
    starts = [c.char_start for c in chunks]
    assert starts == sorted(starts)
    covered = bytearray(len(document.text))
    for c in chunks:
        covered[c.char_start : c.char_end] = b"\1" * (c.char_end - c.char_start)
    for s in document.segments:
        lost = "".join(
            ch for i, ch in enumerate(document.text[s.char_start : s.char_end], s.char_start) if not covered[i]
        )
        if s.kind != "heading" or unit == "chunk":
            assert not any(ch.isalpha() for ch in lost)


@pytest.mark.parametrize("texts", [[], [""], ["one two"], ["a"] * 5000])
def test_tokens_are_counted_without_special_tokens(texts: list[str]) -> None:
    counts = count_tokens_batch(texts)
    assert counts == [len(t.split()) for t in texts]


@pytest.mark.parametrize("unit", UNITS)
def test_an_aside_is_in_no_chunk_and_a_subject_above_it_is_none_of_its_own(unit: Unit) -> None:
    text = "Prices\n\nHi Tom,\n\nThe price is 4 euros.\n\nBest\nAnn\n\nThe end."
    spans = (("Prices", "heading"), ("Hi Tom,", "aside"), ("The price is 4 euros.", "prose"), ("Best\nAnn", "aside"))
    segments = tuple(
        Segment(text.index(words), text.index(words) + len(words), kind, "Prices")  # type: ignore[arg-type]
        for words, kind in (*spans, ("The end.", "prose"))
    )
    document = ExtractedDocument(uri="a.eml", media_type="x", text=text, segments=segments)
    chunks = chunk_document(document, unit)
    check(document, chunks)
    assert [(c.text, c.heading) for c in chunks] == [("The price is 4 euros.", "Prices"), ("The end.", "Prices")]
    alone = ExtractedDocument(uri="a.eml", media_type="x", text="Hi Tom,", segments=(Segment(0, 7, "aside"),))
    assert chunk_document(alone, unit) == []
