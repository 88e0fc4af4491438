"""DOCX: headings, paragraphs, lists, tables and text boxes in the order of the document, by python-docx."""

import io
import re
from collections.abc import Iterator
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction, Source
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, parse_name
from palimpsest.sources.readers.common.encodings import check_archive, parse_xml
from palimpsest.sources.readers.common.text_builder import HeadingPath, TextBuilder, first_heading
from palimpsest.sources.readers.office_package import Comments, office_properties, to_transitional
from palimpsest.store.collection_config import Limits

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
    in_list = False
    for element in _blocks(word.element.body, 0):
        if element.tag == f"{_W}tbl":
            if rows := _rows(element):
                builder.add("\n".join(rows), "table", heading=path.path)
            continue
        text, boxes = _text(element)
        level = levels.get(element.style or "", 0) or _outline_level(element)
        if text and level:
            builder.add(text, "heading", heading=path.push(level, text))
        elif text:
            is_item = element.pPr is not None and element.pPr.numPr is not None
            gap = "\n" if is_item and in_list else "\n\n"
            builder.add(f"- {text}" if is_item else text, "prose", gap=gap, heading=path.path)
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


def _rows(table: Any) -> list[str]:
    """Returns a line for each row that has text, tables in cells after their rows; a merged cell is read once."""
    rows = []
    for row in table.iter(f"{_W}tr"):
        cells = [
            one_line(" ".join(_text(p)[0] for p in cell.iter(f"{_W}p") if next(p.iterancestors(f"{_W}tc")) is cell))
            for cell in row.iter(f"{_W}tc")
            if next(cell.iterancestors(f"{_W}tr")) is row
        ]
        if any(cells):
            rows.append("| " + " | ".join(cells) + " |")
    return rows
