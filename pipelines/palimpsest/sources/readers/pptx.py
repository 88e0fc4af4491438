"""PPTX: slide by slide, the title first, then text, tables, charts and the speaker's notes, by python-pptx."""

import io
from collections.abc import Iterator
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction, Source, limit_problems
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, parse_name
from palimpsest.sources.readers.common.table_rows import add_table
from palimpsest.sources.readers.common.text_builder import HeadingPath, TextBuilder, first_heading
from palimpsest.sources.readers.office_package import Comments, office_properties, to_transitional
from palimpsest.store.collection_config import Limits

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_MAX_DEPTH = 50


def read_pptx(source: Source, limits: Limits) -> Extraction:
    """Reads a slide deck; `page` is the number of the slide, its title the heading of all that is on it.

    Raises:
        Rejected: encrypted, corrupt, empty, or of too many slides.
    """
    import pptx

    deck = pptx.Presentation(io.BytesIO(to_transitional(source.data)))
    if len(deck.slides) > limits.max_pages:
        raise Rejected(f"too large: {len(deck.slides):,} slides, the limit is {limits.max_pages:,}; split the deck")
    builder, problems, comments = TextBuilder(limits.max_chars), list[str](), Comments(source.data)
    for number, slide in enumerate(deck.slides, 1):
        try:
            path = _slide(slide, number, builder)
            for comment in comments.of(slide.part.partname):
                builder.add(comment.line, "prose", heading=path, page=number)
        except Rejected:
            raise
        except Exception as e:  # one damaged slide must not take the others with it
            problems.append(f"slide {number}: cannot be read in full: {type(e).__name__}")
    if not builder.segments:
        raise Rejected(f"empty: no slide holds text{'; ' + problems[0] if problems else ''}")
    properties = office_properties(source.data)
    document = builder.to_document(
        source,
        _MEDIA_TYPE,
        title=_without_default_title(parse_name(properties.pop("title", None))) or first_heading(builder.segments),
        source_time=first_date(properties, "modified", "created", order=source.dates),
        metadata=properties | {"slides": len(deck.slides)},
    )
    return Extraction((document,), limit_problems(problems, limits))


def _slide(slide: Any, number: int, builder: TextBuilder) -> str | None:
    """Adds the content of a slide and returns its heading."""
    path = HeadingPath()
    title = slide.shapes.title
    if title is not None and (words := one_line(clean_text(title.text_frame.text))):
        builder.add(words, "heading", heading=path.push(1, words), page=number)
    for shape in _shapes(slide.shapes, 0):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.has_text_frame:
            lines = [one_line(clean_text(_paragraph(p))) for p in shape.text_frame.paragraphs]
            if text := "\n".join(line for line in lines if line):
                builder.add(text, "prose", heading=path.path, page=number)
        elif getattr(shape, "has_table", False):
            rows = [[_cell(c) for c in row.cells] for row in shape.table.rows]
            if any(any(row) for row in rows):
                add_table(builder, rows, heading=path.path, page=number)
        elif getattr(shape, "has_chart", False) and (rows := _chart(shape.chart)):
            add_table(builder, rows, heading=path.path, page=number)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = "\n".join(
            one_line(clean_text(_paragraph(p))) for p in slide.notes_slide.notes_text_frame.paragraphs
        ).strip()
        if notes:
            builder.add(notes, "prose", prefix="Notes: ", heading=path.path, page=number)
    return path.path


def _shapes(shapes: Any, depth: int) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            if depth < _MAX_DEPTH:
                yield from _shapes(shape.shapes, depth + 1)
        else:
            yield shape


def _paragraph(paragraph: Any) -> str:
    return str(paragraph.text).replace("\v", " ")


def _cell(cell: Any) -> str:
    return "" if cell.is_spanned else one_line(cell.text)


def _chart(chart: Any) -> list[list[str]]:
    rows: list[list[str]] = []
    for plot in chart.plots:
        series = list(plot.series)
        rows.append(["", *(str(s.name) for s in series)])
        columns = [list(s.values) for s in series]
        for i, category in enumerate(plot.categories):
            label = str(getattr(category, "label", category))
            rows.append([label, *("" if i >= len(c) or c[i] is None else f"{c[i]:g}" for c in columns)])
    if chart.has_title and chart.chart_title.has_text_frame and (title := chart.chart_title.text_frame.text.strip()):
        rows = [[title], *rows]
    return rows


def _without_default_title(title: str | None) -> str | None:
    return None if title and title.lower() in ("powerpoint presentation", "presentation", "slide 1") else title
