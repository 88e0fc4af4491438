"""The structure of a Markdown text: what a reader of the rendered page sees, as spans of the text.

Comments are no text. A list item and what is below it carry the items that they are part of, as a section does its
headings, and each part of a long table begins with the table's header.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from palimpsest.sources.extracted import Kind, Segment
from palimpsest.sources.readers.text_builder import TABLE_BLOCK_CHARS, HeadingPath, item_label, list_introduction
from palimpsest.sources.text_edits import Edit, apply_edits

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

_CODE = ("fence", "code_block")
_KINDS: dict[str, Kind] = {"fence": "code", "code_block": "code", "table": "table"}
_LISTS = ("bullet_list", "ordered_list")
_COMMENT_OR_CODE = re.compile(r"<!--|`+")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_HTML_TABLE = re.compile(r"\s*<table\b.*</table>\s*", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"\w")
_DEFINITION = re.compile(r" {0,3}\[(?!\^)")
_MAX_INLINE_CHARS = 1_000


class MarkdownText(NamedTuple):
    """A text as it is stored, its segments, and its first heading: empty where there is none."""

    text: str
    segments: list[Segment]
    title: str


def read_markdown_text(text: str) -> MarkdownText:
    """Returns a Markdown text without comments, its tables of HTML as Markdown, and long ones with their header."""
    parsed = _parse(text)
    for find_edits in (_comment_edits, _html_table_edits, _header_edits):
        if edits := [*find_edits(text, parsed.tokens)]:
            text = apply_edits(text, (), edits).text
            parsed = _parse(text)
    blocks = _Blocks(text, parsed)
    return MarkdownText(text, blocks.segments, blocks.title)


def markdown_segments(text: str) -> list[Segment]:
    """Returns the blocks of a Markdown text, in order: all its text but thematic breaks."""
    return _Blocks(text, _parse(text)).segments


class _Blocks:
    """Walks the blocks of a text and records their spans."""

    def __init__(self, text: str, parsed: "_Parsed") -> None:
        from markdown_it.tree import SyntaxTreeNode

        self.segments: list[Segment] = []
        self.title = ""
        self._text = text
        self._starts = _line_starts(text)
        self._done = 0  # lines
        self._path = HeadingPath()
        self._env = parsed.env
        self._walk(SyntaxTreeNode(parsed.tokens).children, ())
        self._add_unparsed(len(self._starts) - 1)

    def _walk(self, nodes: Sequence["SyntaxTreeNode"], parents: tuple[str, ...]) -> None:
        below = parents
        for node, following in zip_longest(nodes, nodes[1:]):
            if not node.map:
                continue
            if node.level == 0:
                self._add_unparsed(node.map[0])
            if node.type in _LISTS:
                for item in node.children:
                    self._walk_item(item, below)
            elif node.type == "blockquote":
                self._walk(node.children, parents)
            elif node.type == "heading" and node.level == 0:
                title = self._words(node)
                self._path.push(int(node.tag[1]), title)
                self.title = self.title or title
                self._add(node, "heading", ())
            elif node.type == "html_block" and not _TAG.sub("", self._source(node)).strip():
                self._add(node, "aside", parents)
            elif node.type != "hr":
                is_lead_in = node.type == "paragraph" and following is not None and following.type in _LISTS
                words, is_label = list_introduction(self._words(node)) if is_lead_in else ("", False)
                below = (*parents, words) if words else parents
                kind = "label" if is_label else _KINDS.get(node.type, "prose")
                self._add(node, kind, below if kind == "label" else parents)
                continue
            below = parents
            if node.type == "hr":
                self._done = max(self._done, node.map[1])
            elif node.level == 0:
                self._add_unparsed(node.map[1])

    def _walk_item(self, item: "SyntaxTreeNode", parents: tuple[str, ...]) -> None:
        if not item.children:
            return
        first, *rest = item.children
        if first.type not in ("paragraph", "heading"):
            self._walk(item.children, parents)
            return
        words = self._words(first)
        label, is_label = item_label(words)
        has_list = any(node.type in _LISTS for node in rest)
        kind: Kind = "label" if is_label and has_list else "prose"
        below = (*parents, label) if label else parents
        self._add(first, kind, below if kind == "label" else parents)
        self._walk(rest, below)

    def _add_unparsed(self, line: int) -> None:
        """Adds the lines before one that no block has: definitions of links, and what is nested too deeply."""
        start, end = self._starts[min(self._done, line)], self._starts[line]
        if _WORD.search(self._text, start, end):
            self._add_lines(self._done, line, "aside" if _DEFINITION.match(self._text, start) else "prose", ())

    def _add(self, node: "SyntaxTreeNode", kind: Kind, parents: tuple[str, ...]) -> None:
        if node.map:
            self._add_unparsed(node.map[0])
            self._add_lines(*node.map, kind, parents)

    def _add_lines(self, first: int, end: int, kind: Kind, parents: tuple[str, ...]) -> None:
        start, stop = self._starts[first], min(self._starts[end], len(self._text))
        if self.segments:
            start = max(start, self.segments[-1].char_end)
        block = self._text[start:stop]
        # The indent of a code block is part of it; of any other block it is not.
        left = len(block) - len(block.lstrip("\n" if kind == "code" else None))
        if block.strip():
            path = self._path.below(parents)
            self.segments.append(Segment(start + left, start + len(block.rstrip()), kind, path))
        self._done = max(self._done, end)

    def _words(self, node: "SyntaxTreeNode") -> str:
        """Returns the words of a paragraph or heading as they are shown: without marks and addresses."""
        source = node.children[0].content[:_MAX_INLINE_CHARS] if node.children else ""
        children = _inline_parser().parseInline(source, self._env)[0].children or []
        shown = (
            " " if c.type in ("softbreak", "hardbreak") else c.content for c in children if c.type != "html_inline"
        )
        return "".join(shown)

    def _source(self, node: "SyntaxTreeNode") -> str:
        return "" if not node.map else self._text[self._starts[node.map[0]] : self._starts[node.map[1]]]


def _line_starts(text: str) -> list[int]:
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


def _comment_edits(text: str, tokens: Sequence[Any]) -> Iterator[Edit]:
    """Yields what empties each comment that is not in code; its line breaks stay, so that lines keep their numbers."""
    if "-->" not in text:
        return
    starts = _line_starts(text)
    code = [(starts[t.map[0]], starts[t.map[1]]) for t in tokens if t.type in _CODE and t.map]
    at = 0
    while found := _COMMENT_OR_CODE.search(text, at):
        if block := next((end for start, end in code if start <= found.start() < end), 0):
            at = block
        elif found[0] == "<!--":
            close = text.find("-->", found.end())
            if close < 0:
                return
            at = close + 3
            yield Edit(found.start(), at, "\n" * text.count("\n", found.start(), at))
        else:
            paragraph_end = text.find("\n\n", found.end())
            close = text.find(found[0], found.end(), paragraph_end if paragraph_end >= 0 else len(text))
            at = found.end() if close < 0 else close + len(found[0])


def _html_table_edits(text: str, tokens: Sequence[Any]) -> Iterator[Edit]:
    """Yields what writes each table of HTML as one of Markdown, in at least as many lines."""
    from palimpsest.sources.readers.html_page import table_rows

    starts = _line_starts(text)
    for token in tokens:
        if token.type != "html_block" or token.level or token.map is None:
            continue
        start, end = starts[token.map[0]], min(starts[token.map[1]], len(text))
        found = _HTML_TABLE.fullmatch(text, start, end)
        if found and (rows := table_rows(found[0])):
            columns = max(row.count("|") for row in rows) - 1
            lines = [rows[0], "|" + " --- |" * columns, *rows[1:]]
            yield Edit(start, end, "\n".join(lines) + "\n" * max(1, found[0].count("\n") - len(lines) + 1))


def _header_edits(text: str, tokens: Sequence[Any]) -> Iterator[Edit]:
    """Yields what inserts the header of a long table before each part of it but the first."""
    starts = _line_starts(text)
    for token in tokens:
        if token.type != "table_open" or token.level or token.map is None:
            continue
        first, end = token.map
        body = starts[first + 2] if first + 2 < end else starts[end]
        header = text[starts[first] : body]
        size = body - starts[first]
        for line in range(first + 2, end):
            length = starts[line + 1] - starts[line]
            if size > len(header) and size + length > max(TABLE_BLOCK_CHARS, 2 * len(header)):
                yield Edit(starts[line], starts[line], f"\n{header}")
                size = len(header)
            size += length


class _Parsed(NamedTuple):
    """The tokens of blocks without the cells of tables, and what the links of a text refer to."""

    tokens: list[Any]
    env: dict[str, Any]


def _parse(text: str) -> _Parsed:
    env: dict[str, Any] = {}
    tokens, depth = [], 0
    for token in _block_parser().parse(text, env):
        depth -= token.type == "table_close"
        if not depth:
            tokens.append(token)
        depth += token.type == "table_open"
    return _Parsed(tokens, env)


@cache
def _block_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Inline marks are parsed where words are needed: spans are whole blocks, and citations quote the source as written.
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@cache
def _inline_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")
