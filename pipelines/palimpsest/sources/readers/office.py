"""Office files in the order of the document: DOCX by python-docx, XLSX by openpyxl, PPTX by python-pptx."""

import datetime as dt
import io
import posixpath
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject
from palimpsest.sources.extracted import Extraction, Source, limit_problems
from palimpsest.sources.readers.encodings import check_archive, clean_text, first_date, one_line, parse_name, parse_xml
from palimpsest.sources.readers.text_builder import (
    HeadingPath,
    TableLimits,
    TextBuilder,
    add_table,
    first_heading,
    item_label,
)
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder, parse_stated_time

# Office files as packages of XML parts: their properties, their comments, and files in Strict Open XML.

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_STRICT_PARTS = (".xml", ".rels")
_CORE = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "category": "category",
    "created": "created",
    "modified": "modified",
}


def to_transitional(data: bytes) -> bytes:
    """Returns an Office file with the namespaces that libraries know: Strict Open XML has other names for them.

    A file that is not strict is returned as it is.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        relations = next((n for n in old.namelist() if n == "_rels/.rels"), None)
        if relations is None or not _STRICT.search(old.read(relations)):
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as new:
            for item in old.infolist():
                part = old.read(item)
                if item.filename.endswith(_STRICT_PARTS):
                    part = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", part)
                new.writestr(item.filename, part)
    return out.getvalue()


def office_properties(data: bytes) -> JsonObject:
    """Returns title, author, subject, keywords, category, created and modified (ISO) where an Office file states them.

    Read from the file itself: the libraries return the present time where a file states none.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        relations = parse_xml(archive.read("_rels/.rels"), recover=True) if "_rels/.rels" in names else None
        targets = [] if relations is None else [e.get("Target") for e in relations if e.get("Type") == _CORE]
        part = next((t.lstrip("/") for t in targets if t), "docProps/core.xml")
        root = parse_xml(archive.read(part), recover=True) if part in names else None
    properties: JsonObject = {}
    for element in () if root is None else root.iterchildren("{*}*"):
        key = _PROPERTIES.get(element.tag.rpartition("}")[2])
        value = one_line(clean_text(element.text or ""))
        if key in ("created", "modified"):
            when = parse_stated_time(value)
            value = when.astimezone(dt.UTC).isoformat() if when else ""
        if key and value:
            properties[key] = value
    return properties


# Comments in Office files: by whom, when, and on which cell.

_PEOPLE = re.compile(r"ppt/(commentA|a)uthors\.xml|xl/persons/[^/]+\.xml")
_KINDS = ("/comments", "/threadedComment")
_THREAD = "tc="  # in a sheet, the copy of a threaded comment for older programs has such an author


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `place` is its id in a text document, its cell in a sheet, empty on a slide."""

    place: str
    line: str


class Comments:
    """The comments of one Office file, by the part that they belong to."""

    def __init__(self, data: bytes) -> None:
        """Opens a checked archive."""
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._names = set(self._archive.namelist())
        self._people = {
            _get(person, "id"): _get(person, "displayName") or _get(person, "name")
            for name in sorted(filter(_PEOPLE.fullmatch, self._names))
            for person in self._root(name).iter("{*}cmAuthor", "{*}author", "{*}person")
        }

    def of(self, part: str) -> list[Comment]:
        """Returns the comments of a part (`word/document.xml`, a sheet, a slide), as lines for people, in order."""
        folder, name = posixpath.split(part.lstrip("/"))
        relations = posixpath.join(folder, "_rels", f"{name}.rels")
        if relations not in self._names:
            return []
        found: list[Comment] = []
        for relation in self._root(relations):
            if _get(relation, "Type").endswith(_KINDS) and _get(relation, "TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, _get(relation, "Target"))).lstrip("/")
                if target in self._names:
                    found += self._read(self._root(target))
        return found

    def _root(self, name: str) -> Any:
        return parse_xml(self._archive.read(name))

    def _read(self, root: Any) -> Iterator[Comment]:
        listed = [a.text or "" for a in root.iterfind("{*}authors/{*}author")]  # of a sheet's plain comments
        for comment in root.iter("{*}comment", "{*}threadedComment", "{*}cm", "{*}reply"):
            number = _get(comment, "authorId")
            by = listed[int(number)] if listed and number.isdigit() and int(number) < len(listed) else ""
            by = by or _get(comment, "author") or self._people.get(_get(comment, "personId") or number, "")
            body = next(iter([*comment.iterfind("{*}text"), *comment.iterfind("{*}txBody")]), comment)
            paragraphs = list(body.iter("{*}p")) or [body]
            text = one_line(clean_text(" ".join("".join(_letters(p)) for p in paragraphs)))
            cell = _get(comment, "ref")
            when = parse_stated_time(_get(comment, "date") or _get(comment, "dT") or _get(comment, "dt"))
            when = when or parse_stated_time(_get(comment, "created"))
            if text and not by.startswith(_THREAD):
                line = f"Comment by {one_line(clean_text(by))}" if by else "Comment"
                line += (f" on {cell}" if cell else "") + (f", {when:%Y-%m-%d}" if when else "")
                yield Comment(cell or _get(comment, "id"), f"{line}: {text}")


def _letters(node: Any) -> list[str]:
    return [t.text or "" for t in node.iter("{*}t")] or [node.text or ""]


def _get(node: Any, name: str) -> str:
    """Returns an attribute in any namespace, empty where there is none."""
    return next((v for k, v in node.attrib.items() if k.rpartition("}")[2] == name), "")


# Equations of Office files as a line of text: x=(-b±√(b^2-4ac))/(2a).
#
# The form is that of Unicode's linear mathematics (Unicode Technical Note 28), which keeps each symbol as it is: words
# search finds it and a person can read it.

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
EQUATION = f"{_M}oMath"
_ATOM = re.compile(r"\w+(?:[.,]\d+)*|\W")  # nothing but one name, number or sign: it needs no parentheses
_UNSEEN = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u200b"))
_MAX_EQUATION_DEPTH = 30


def format_equation(node: Any, depth: int = 0) -> str:
    """Returns the text of an `m:oMath` element or a part of one; what has no linear form gives its letters."""
    if depth > _MAX_EQUATION_DEPTH:
        return "".join(t.text or "" for t in node.iter(f"{_M}t"))

    def of(name: str) -> str:
        child = node.find(_M + name)
        return "" if child is None else format_equation(child, depth + 1)

    def script(mark: str, name: str) -> str:
        words = of(name)
        return mark + _atom(words) if words else ""

    match node.tag.removeprefix(_M):
        case "t":
            return (node.text or "").translate(_UNSEEN)
        case "f":
            if _value(node, "fPr/type", "bar") == "noBar":
                return f"{_atom(of('num'))}¦{_atom(of('den'))}"
            return f"{_atom(of('num'))}/{_atom(of('den'))}"
        case "sSub" | "sSup" | "sSubSup":
            return _atom(of("e")) + script("_", "sub") + script("^", "sup")
        case "sPre":
            return script("_", "sub") + script("^", "sup") + _atom(of("e"))
        case "rad":
            return f"{_atom(of('deg'))}√{_atom(of('e'))}" if of("deg") else f"√{_atom(of('e'))}"
        case "nary":
            return f"{_value(node, 'naryPr/chr', '∫')}{script('_', 'sub')}{script('^', 'sup')} {of('e')}"
        case "limLow" | "limUpp":
            return of("e") + script("_" if node.tag.endswith("Low") else "^", "lim")
        case "func":
            return f"{of('fName')} {of('e')}"
        case "d":
            parts = [format_equation(e, depth + 1) for e in node.findall(f"{_M}e")]
            between = _value(node, "dPr/sepChr", "|").join(parts)
            return _value(node, "dPr/begChr", "(") + between + _value(node, "dPr/endChr", ")")
        case "acc":
            return of("e") + _value(node, "accPr/chr", "\u0302")
        case "m":
            rows = ([format_equation(e, depth + 1) for e in row.findall(f"{_M}e")] for row in node.findall(f"{_M}mr"))
            return "; ".join(", ".join(row) for row in rows)
        case "eqArr":
            return "; ".join(format_equation(e, depth + 1) for e in node.findall(f"{_M}e"))
    out = ""
    for child in node:
        words = format_equation(child, depth + 1) if isinstance(child.tag, str) else ""
        # A space ends a script or a fraction: x^k a, not x^ka.
        runs = child.tag == f"{_M}r" and child.getprevious() is not None and child.getprevious().tag == f"{_M}r"
        apart = out[-1:].isalnum() and words[:1].isalnum() and not runs
        out += f" {words}" if apart else words
    return out


def _atom(words: str) -> str:
    words = words.strip()
    return words if not words or _ATOM.fullmatch(words) or _is_enclosed(words) else f"({words})"


def _is_enclosed(words: str) -> bool:
    """Returns whether the parenthesis that opens the text is the one that closes it."""
    depth = 0
    for i, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i > 0 and i == len(words) - 1
    return False


def _value(node: Any, path: str, default: str) -> str:
    found = node.find("/".join(_M + part for part in path.split("/")))
    return default if found is None else found.get(f"{_M}val", "")


_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_BREAKS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE)
_MAX_DEPTH = 50


def read_docx(source: Source, limits: Limits) -> Extraction:
    """Reads a Word document; a table is one segment, a line `| a | b |` for each row.

    Raises:
        Rejected: encrypted, corrupt, empty, or larger than the limits when unpacked.
    """
    import docx

    check_archive(source.data, limits)
    try:
        word = docx.Document(io.BytesIO(to_transitional(source.data)))
    except KeyError:  # the relation to the main part has another name there
        raise Rejected("corrupt DOCX: it does not name its main part; save it again as a Word document") from None
    comments = {c.place: c.line for c in Comments(source.data).of(word.part.partname)}
    builder = TextBuilder(limits.max_chars)
    _add_blocks(builder, word, _footnotes(word), comments)
    if not builder.segments:
        raise Rejected("empty: the document holds no text")
    properties = office_properties(source.data)
    document = builder.to_document(
        source,
        _MEDIA_TYPE,
        title=parse_name(properties.pop("title", None)) or first_heading(builder.segments),
        source_time=first_date(properties, "modified", "created", order=source.dates),
        metadata=properties,
    )
    return Extraction((document,))


def _add_blocks(
    builder: TextBuilder, word: Any, notes: dict[tuple[str, str | None], str], comments: dict[str, str]
) -> None:
    """Appends paragraphs and tables in order; notes and comments follow the paragraph that refers to them."""
    levels, path = _heading_levels(word), HeadingPath()
    items: list[tuple[int, str]] = []  # level and label of the list items above the current place
    in_list = False
    for element in _blocks(word.element.body, 0):
        if element.tag == f"{_W}tbl":
            if rows := _rows(element):
                add_table(builder, rows, heading=path.path)
            items.clear()
            continue
        text, boxes = _text(element)
        level = levels.get(element.style or "", 0) or _outline_level(element)
        if text and level:
            builder.add(text, "heading", heading=path.push(level, text))
        elif text:
            item_level = _item_level(element)
            is_item = item_level is not None
            gap = "\n" if is_item and in_list else "\n\n"
            items = [item for item in items if item_level is not None and item[0] < item_level]
            above = path.below(label for _, label in items)
            builder.add(f"- {text}" if is_item else text, "prose", gap=gap, heading=above)
            if item_level is not None:
                items.append((item_level, item_label(text)[0]))
            in_list = is_item
        for reference in element.iter(f"{_W}footnoteReference", f"{_W}endnoteReference"):
            if note := notes.pop((reference.tag, reference.get(f"{_W}id")), ""):
                builder.add(note, "prose", prefix="Note: ", heading=path.path)
                in_list = False
        for reference in element.iter(f"{_W}commentReference"):
            if comment := comments.pop(reference.get(f"{_W}id") or "", ""):
                builder.add(comment, "prose", heading=path.path)
                in_list = False
        for box in boxes:
            builder.add(box, "prose", heading=path.path)


def _footnotes(document: Any) -> dict[tuple[str, str | None], str]:
    """Returns the words of each footnote and endnote by the tag and id of what refers to it."""
    notes: dict[tuple[str, str | None], str] = {}
    for relation in document.part.rels.values():
        kind = relation.reltype.rpartition("/")[2]
        if kind in ("footnotes", "endnotes") and not relation.is_external:
            root = parse_xml(relation.target_part.blob)
            for note in root.iter(f"{_W}{kind[:-1]}"):
                words = " ".join(text for p in note.iter(f"{_W}p") if (text := _text(p)[0]))
                notes[f"{_W}{kind[:-1]}Reference", note.get(f"{_W}id")] = one_line(words)
    return notes


def _heading_levels(document: Any) -> dict[str, int]:
    """Maps the id of each heading style to its level: by its name in any language's ids, or its outline level."""
    levels = {}
    for style in document.styles.element.style_lst:
        name, outline = style.name_val or "", style.find(f"{_W}pPr/{_W}outlineLvl")
        if m := _HEADING.fullmatch(name) or _HEADING.fullmatch(style.styleId or ""):
            levels[style.styleId] = int(m[1])
        elif name.lower() == "title":
            levels[style.styleId] = 1
        elif outline is not None and (outline.get(f"{_W}val") or "").isdigit() and int(outline.get(f"{_W}val")) < 9:
            levels[style.styleId] = int(outline.get(f"{_W}val")) + 1
    return levels


def _item_level(paragraph: Any) -> int | None:
    """Returns how deep in a list a paragraph is, from 0; None where it is no item."""
    numbering = None if paragraph.pPr is None else paragraph.pPr.numPr
    if numbering is None:
        return None
    return 0 if numbering.ilvl is None else int(numbering.ilvl.val)


def _outline_level(paragraph: Any) -> int:
    outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    value = "9" if outline is None else outline.get(f"{_W}val") or "9"
    return int(value) + 1 if value.isdigit() and int(value) < 9 else 0


def _blocks(parent: Any, depth: int) -> Iterator[Any]:
    """Yields paragraphs and tables in order, those inside content controls included."""
    for child in parent:
        if child.tag in (f"{_W}p", f"{_W}tbl"):
            yield child
        elif depth < _MAX_DEPTH and child.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}ins", f"{_W}customXml"):
            yield from _blocks(child, depth + 1)


def _text(paragraph: Any) -> tuple[str, list[str]]:
    """Returns a paragraph's text, with insertions and links but not deletions, and the text of boxes anchored in it."""
    parts: list[str] = []
    boxes: list[str] = []

    def walk(node: Any, depth: int) -> None:
        for child in node:
            tag = child.tag
            if tag == f"{_W}t":
                parts.append(child.text or "")
            elif tag == EQUATION:
                parts.append(format_equation(child))
            elif tag in _BREAKS:
                parts.append(_BREAKS[tag])
            elif tag == f"{_W}txbxContent":
                boxes.extend(t for p in child.iter(f"{_W}p") if (t := _text(p)[0]))
            elif tag not in (_FALLBACK, f"{_W}pPr", f"{_W}rPr", f"{_W}del", f"{_W}moveFrom") and depth < _MAX_DEPTH:
                walk(child, depth + 1)

    walk(paragraph, 0)
    return clean_text("".join(parts)).strip(), boxes


def _rows(table: Any) -> list[list[str]]:
    """Returns the cells of each row that has text, tables in cells after their rows; a merged cell is read once."""
    rows = []
    for row in table.iter(f"{_W}tr"):
        cells = [
            one_line(" ".join(_text(p)[0] for p in cell.iter(f"{_W}p") if next(p.iterancestors(f"{_W}tc")) is cell))
            for cell in row.iter(f"{_W}tc")
            if next(cell.iterancestors(f"{_W}tr")) is row
        ]
        if any(cells):
            rows.append(cells)
    return rows


_XLSX_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

# XLSX: the stored values of each sheet, a table for each run of rows, by openpyxl as a stream.

_MAX_ROWS_SEEN = 5_000_000  # empty ones too: a sheet has at most 1,048,576


def read_xlsx(source: Source, limits: Limits) -> Extraction:
    """Reads every sheet, its name as the heading; formulas give the value that was stored with them.

    Raises:
        Rejected: encrypted, corrupt, empty or beyond the limits of rows and cells.
    """
    import openpyxl

    with warnings.catch_warnings():  # about styles and extensions that do not touch the values
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(
            io.BytesIO(to_transitional(source.data)), read_only=True, data_only=True, keep_links=False
        )
        try:
            builder, count, seen = TextBuilder(limits.max_chars), TableLimits(limits), 0
            comments, problems = Comments(source.data), list[str]()
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # what a file claims of its size is often wrong
                started = False
                table: list[list[str]] = []
                for row in sheet.iter_rows(values_only=True):
                    seen += 1
                    if seen > _MAX_ROWS_SEEN:
                        raise Rejected(f"too large: more than {_MAX_ROWS_SEEN:,} rows, most of them empty; split it")
                    values = [_xlsx_text(v) for v in row] if any(v is not None for v in row) else []
                    if any(values):
                        count.count(sum(map(bool, values)))
                        if not started:
                            builder.add(
                                one_line(clean_text(sheet.title)), "heading", heading=one_line(clean_text(sheet.title))
                            )
                            started = True
                        table.append(values)
                    elif table:
                        problems += _add_table(builder, table, sheet.title, source.dates)
                        table = []
                if table:
                    problems += _add_table(builder, table, sheet.title, source.dates)
                for comment in comments.of(getattr(sheet, "_worksheet_path", "")):
                    builder.add(comment.line, "prose", heading=one_line(clean_text(sheet.title)))
        finally:
            book.close()
    if not builder.segments:
        raise Rejected("empty: no sheet holds a value")
    properties = office_properties(source.data)
    document = builder.to_document(
        source,
        _XLSX_MEDIA_TYPE,
        title=parse_name(properties.pop("title", None)),
        source_time=first_date(properties, "modified", "created", order=source.dates),
        metadata=properties,
    )
    return Extraction((document,), limit_problems(problems, limits))


def _add_table(builder: TextBuilder, table: list[list[str]], sheet: str, order: DateOrder | None) -> list[str]:
    """Appends a table under the name of its sheet and returns its problems."""
    heading = one_line(clean_text(sheet))
    problems = add_table(builder, _without_empty_columns(table), order, heading=heading)
    return [f"sheet {heading}: {p}" for p in problems]


def _xlsx_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    return str(value).strip()


def _without_empty_columns(table: list[list[str]]) -> list[list[str]]:
    width = max(map(len, table))
    used = [c for c in range(width) if any(c < len(row) and row[c] for row in table)]
    return [[row[c] if c < len(row) else "" for c in used] for row in table]


_PPTX_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"


# PPTX: slide by slide, the title first, then text, tables, charts and the speaker's notes, by python-pptx.


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
        _PPTX_MEDIA_TYPE,
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
