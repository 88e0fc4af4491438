"""XLSX and PPTX."""

from datetime import datetime

import openpyxl
import pptx

from tests.sources.hostile import saved
from tests.sources.segment_texts import segment_texts


def test_a_workbook_gives_stored_values_by_sheet(read) -> None:
    book = openpyxl.Workbook()
    book.properties.title, book.properties.modified = "Budget", datetime(2024, 5, 6, 7, 8)
    first, second = book.active, book.create_sheet("Notes")
    first.title = "Q1"
    for row in (["month", "euro"], [datetime(2024, 1, 1), 40_000.0], [datetime(2024, 2, 1, 12), 0.5], [], ["A remark"]):
        first.append(row)
    second["C5"] = True
    (document,) = read("budget.xlsx", saved(book)).documents
    assert document.title == "Budget"
    assert [(k, h) for k, h, _ in segment_texts(document)] == [
        ("heading", "Q1"), ("table", "Q1"), ("prose", "Q1"), ("heading", "Notes"), ("prose", "Notes"),
    ]  # fmt: skip
    assert document.text == (
        "Q1\n\n| month | euro |\n| 2024-01-01 | 40000 |\n| 2024-02-01 12:00:00 | 0.5 |\n\nA remark\n\nNotes\n\nTRUE"
    )


def test_slides_give_titles_text_tables_and_notes(read) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Kestrel"
    slide.placeholders[1].text = "Ships in May\nCosts 40,000"
    slide.notes_slide.notes_text_frame.text = "Say it slowly."
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for i, text in enumerate(("Name", "Role", "Ana", "Lead")):
        table.cell(i // 2, i % 2).text = text
    (document,) = read("kestrel.pptx", saved(deck)).documents
    assert document.title == "Kestrel" and document.metadata["slides"] == 2
    assert [(s.kind, s.page, document.text[s.char_start : s.char_end]) for s in document.segments] == [
        ("heading", 1, "Kestrel"),
        ("prose", 1, "Ships in May\nCosts 40,000"),
        ("prose", 1, "Say it slowly."),
        ("table", 2, "| Name | Role |\n| Ana | Lead |"),
    ]
