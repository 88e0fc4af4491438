"""The structure of a reStructuredText text, by docutils: sections, paragraphs, lists, tables and code, as spans.

Docutils states the line of each block; how many lines it has, its own source does. What docutils has no block for is a
comment, a target or a directive of Sphinx, of which only the content is text.
"""

import re
from collections.abc import Sequence
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any

from palimpsest.sources.extracted import Kind, Segment
from palimpsest.sources.readers.text_builder import HeadingPath, item_label, list_introduction
from palimpsest.text.markup import shown_words

if TYPE_CHECKING:
    from docutils import nodes

_SETTINGS = {
    "_disable_config": True,
    "docinfo_xform": False,
    "doctitle_xform": False,
    "embed_stylesheet": False,
    "file_insertion_enabled": False,
    "halt_level": 6,
    "raw_enabled": False,
    "report_level": 5,
    "sectsubtitle_xform": False,
    "smart_quotes": False,
    "syntax_highlight": "none",
    "warning_stream": False,
}
_HEADER = re.compile(r"(?:[A-Z][A-Za-z-]{1,30}:[^\n]*\n(?:[ \t]+\S[^\n]*\n)*){2,}(?=\s*\n)")
_DIRECTIVE = re.compile(r"\s*\.\. (?:\|[^|\n]+\| )?(?P<name>[\w:+.-]+?)::")
_EXPLICIT = re.compile(r"\s*(?:\.\.|__)(?:\s|$)")
_MARK = re.compile(r"[ \t]*\.\. (?:[\w-]+::|\[[^\]\n]+\])[ \t]*")  # of a note or a footnote
_CODE_DIRECTIVES = frozenset({"code", "code-block", "sourcecode", "doctest", "testcode", "parsed-literal", "math"})
_DIRECTIVES_WITHOUT_TEXT = frozenset({"toctree", "raw", "meta", "index", "contents", "include", "image", "plot"})
_INLINE_MARK = re.compile(r":[\w:+-]+:(?=`)|`+_{0,2}|\*+")
_MAX_INLINE_CHARS = 1_000
_MAX_BLANK_LINES = 4  # between the line that docutils names and the block
_OPTION = re.compile(r"\s*:[\w -]+:(?:\s|$)")
_BORDER = re.compile(r"\s*(?:[-=]{3,}[-= ]*|\+[-=+]+\+)\s*")


def restructured_segments(text: str) -> tuple[list[Segment], str]:
    """Returns the segments of a text, and the title of the section that has all others; empty where there is none.

    Raises:
        RecursionError, ValueError and what else docutils lets through: nothing can be said of the structure.
    """
    from docutils.core import publish_doctree
    from docutils.nodes import Text, section
    from docutils.parsers.rst import Parser
    from docutils.parsers.rst.states import Inliner

    inliner = Inliner()
    # Marks inside of lines stay as they are: spans are whole blocks, and Sphinx has roles of its own.
    inliner.parse = lambda text, *_: ([Text(text)], [])
    header = _HEADER.match(text)  # docutils takes the continued lines of a mail's header for definitions
    body = re.sub(r"[^\n]", " ", header[0]) + text[header.end() :] if header else text
    tree = publish_doctree(body, parser=Parser(inliner=inliner), settings_overrides=_SETTINGS)
    blocks = _Blocks(text)
    if header:
        blocks.add(0, header[0].count("\n"), "prose", ())
    blocks.walk(tree.children, ())
    blocks.add_unparsed(len(blocks.lines))
    sections = [node for node in tree.children if isinstance(node, section)]
    return blocks.segments, _words(sections[0].children[0]) if len(sections) == 1 and not header else ""


class _Blocks:
    """Walks the blocks of a document tree and records their spans."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.segments: list[Segment] = []
        self._text = text
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        self._done = 0  # lines
        self._depth = 0
        self._path = HeadingPath()

    def walk(self, children: Sequence[Any], parents: tuple[str, ...]) -> None:
        from docutils import nodes

        below = parents
        for node, following in zip_longest(children, children[1:]):
            before, below = below, parents
            if isinstance(node, nodes.section):
                self._depth += 1
                self._walk_section(node)
                self._depth -= 1
            elif isinstance(node, nodes.bullet_list | nodes.enumerated_list):
                for item in node.children:
                    self._walk_item(item, before)
            elif isinstance(node, nodes.definition_list_item):
                self._walk_definition(node, parents)
            elif isinstance(node, nodes.field):
                self._add_field(node, parents)
            elif isinstance(node, nodes.paragraph):
                is_lead_in = isinstance(following, nodes.bullet_list | nodes.enumerated_list)
                words, is_label = list_introduction(_words(node)) if is_lead_in else ("", False)
                below = (*parents, words) if words else parents
                self._add_source(node, "label" if is_label else "prose", below if is_label else parents)
            elif isinstance(node, nodes.literal_block | nodes.doctest_block | nodes.math_block):
                self._add_source(node, "code", parents)
            elif isinstance(node, nodes.table):
                self._add_table(node, parents)
            elif not isinstance(node, nodes.system_message | nodes.TextElement):
                self.walk(node.children, parents)

    def _walk_section(self, node: "nodes.section") -> None:
        title, *rest = node.children
        line = _line(title)
        if line is not None and line >= 1:
            first = line - 1
            if first > 0 and self.lines[first - 1].strip() and self.lines[first - 1] == self.lines[line].rstrip():
                first -= 1
            self.add_unparsed(first)
            self._path.push(self._depth, _words(title))
            self.add(first, line + 1, "heading", ())
        self.walk(rest, ())

    def _walk_item(self, item: Any, parents: tuple[str, ...]) -> None:
        from docutils import nodes

        first, *rest = item.children or [None]
        if not isinstance(first, nodes.paragraph):
            self.walk(item.children, parents)
            return
        label, is_label = item_label(_words(first))
        is_label = is_label and any(isinstance(n, nodes.bullet_list | nodes.enumerated_list) for n in rest)
        below = (*parents, label) if label else parents
        self._add_source(first, "label" if is_label else "prose", below if is_label else parents)
        self.walk(rest, below)

    def _walk_definition(self, item: Any, parents: tuple[str, ...]) -> None:
        term, *rest = item.children
        below = (*parents, item_label(_words(term))[0])
        self._add_source(term, "label", below)
        for node in rest:
            self.walk(node.children, below)

    def _add_field(self, node: "nodes.field", parents: tuple[str, ...]) -> None:
        """Adds `:name: value` as one segment."""
        if (line := _line(node)) is not None and line >= self._done:
            self.add_unparsed(line)
            self.add(line, self._end_of_indented(line), "prose", parents)

    def _add_source(self, node: Any, kind: Kind, parents: tuple[str, ...]) -> None:
        """Adds the lines of a block: as many as its source has. What stands elsewhere is added as text later."""
        source = (node.rawsource or node.astext()).strip("\n").split("\n")
        words, line = source[0].strip(), _line(node)
        if line is None or not words:
            return
        near = range(max(line, self._done), min(line + _MAX_BLANK_LINES, len(self.lines)))
        if (first := next((n for n in near if words in self.lines[n]), None)) is not None:
            self.add_unparsed(first)
            self.add(first, first + len(source), kind, parents)

    def _add_table(self, node: Any, parents: tuple[str, ...]) -> None:
        first = _line(node)
        if first is None or first < self._done:
            return
        end, lines = first + 1, self.lines
        if _DIRECTIVE.match(lines[first]):
            end = self._end_of_indented(first)
        elif lines[first].lstrip().startswith("+"):
            while end < len(lines) and lines[end].strip():
                end += 1
        else:  # a table of `===`, which may have blank lines, ends with a border that no line follows
            while end < len(lines) and not (
                _BORDER.fullmatch(lines[end - 1]) and not lines[end].strip() and end > first + 1
            ):
                end += 1
        self.add_unparsed(first)
        self.add(first, end, "table", parents)

    def add_unparsed(self, line: int) -> None:
        """Adds the lines before one that no block has: comments, targets, directives unknown to docutils."""
        at = self._done
        while at < line:
            text = self.lines[at]
            if not text.strip() or _BORDER.fullmatch(text):
                at += 1
                continue
            end = min(self._end_of_indented(at) if _EXPLICIT.match(text) else self._end_of_paragraph(at), line)
            if directive := _DIRECTIVE.match(text):
                self._add_directive(directive["name"], at, end)
            else:
                self.add(at, end, "aside" if _EXPLICIT.match(text) else "prose", ())
            at = end

    def _add_directive(self, name: str, first: int, end: int) -> None:
        at = first + 1
        while at < end and _OPTION.match(self.lines[at]):
            at += 1
        self.add(first, at, "aside", ())
        if name in _CODE_DIRECTIVES or name in _DIRECTIVES_WITHOUT_TEXT:
            self.add(at, end, "code" if name in _CODE_DIRECTIVES else "aside", ())
            return
        while at < end:
            stop = min(self._end_of_paragraph(at), end)
            self.add(at, stop, "prose", ())
            at = max(stop, at + 1)

    def add(self, first: int, end: int, kind: Kind, parents: tuple[str, ...]) -> None:
        """Adds lines as one segment, without blank ones around them."""
        first, end = max(first, self._done), min(end, len(self.lines))
        if first >= end:
            return
        start, stop = self._starts[first], min(self._starts[end], len(self._text))
        if kind == "prose" and (mark := _MARK.match(self._text, start)):
            start = mark.end()
        block = self._text[start:stop]
        left = len(block) - len(block.lstrip("\n" if kind == "code" else None))
        if block.strip():
            path = self._path.below(parents)
            self.segments.append(Segment(start + left, start + len(block.rstrip()), kind, path))
        self._done = end

    def _end_of_indented(self, first: int) -> int:
        """Returns the line after a block that begins with a mark and goes on as long as lines are indented."""
        indent = len(self.lines[first]) - len(self.lines[first].lstrip())
        end = first + 1
        for line in range(first + 1, len(self.lines)):
            text = self.lines[line]
            if text.strip():
                if len(text) - len(text.lstrip()) <= indent:
                    break
                end = line + 1
        return end

    def _end_of_paragraph(self, first: int) -> int:
        return next((n for n in range(first, len(self.lines)) if not self.lines[n].strip()), len(self.lines))


def _words(node: Any) -> str:
    """Returns the words of a block without the marks of roles, links, emphasis and code."""
    return _INLINE_MARK.sub("", shown_words(node.astext()[:_MAX_INLINE_CHARS]))


def _line(node: Any) -> int | None:
    """Returns the line at which docutils says that a block begins, from 0."""
    return node.line - 1 if node.line else None
