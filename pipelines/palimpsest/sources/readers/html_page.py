"""HTML pages: the main text by their structure, the title and the dates that the page states."""

import json
import re
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject
from palimpsest.sources.extracted import Extraction, Kind, Source, limit_problems
from palimpsest.sources.readers.encodings import clean_text, decode, first_date, one_line, parse_name
from palimpsest.sources.readers.text_builder import HeadingPath, TextBuilder, first_heading, table_blocks
from palimpsest.store.collection_config import Limits

# HTML into segments: main text without menus, headings, paragraphs, lists, tables and code, in order.
#
# Shared by web pages, books and mails. Trees are walked without recursion: nesting is the author's, the stack is ours.

_UNREAD = "script style noscript template svg head iframe object embed canvas audio video map"
_FIELDS = "select datalist textarea input annotation annotation-xml rp"
_BOXES = "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption"
_MORE = "figure footer form header hr html legend li main menu nav ol optgroup option p section summary ul"
_CELLS = "table tbody td tfoot th thead tr"
_DROPPED = frozenset(f"{_UNREAD} {_FIELDS}".split())
_BLOCKS = frozenset(f"{_BOXES} {_MORE} {_CELLS}".split())
_ROLES = "navigation banner contentinfo search complementary menu menubar toolbar"
_LEVELS = {f"h{n}": n for n in range(1, 7)}
_FURNITURE_ROLES = frozenset(_ROLES.split())
_FURNITURE_NAME = re.compile(
    r"(?:^|[\s_-])(?:nav\w*|menu\w*|breadcrumbs?|side-?bar|footer|masthead|cookies?|consent|share|sharing|social|related"
    r"|pagination|pager|newsletter|promo|advert\w*|skip|toc|hash-?link|headerlink|mw-editsection|edit-?section)"
    r"(?:$|[\s_-])",
    re.IGNORECASE,
)
_NOTICE_NAME = re.compile(
    r"(?:^|[\s_-])(?:(?:cookies?|consent|onetrust|newsletter|skip-?(?:link|nav|to))[\w-]*|cc-(?:window|banner)|gdpr|ccpa"
    r"|subscribe|sign-?up-?form|copyright|announcement-?bar|banner|site-?footer)(?:$|[\s_-])",
    re.IGNORECASE,
)
"""Names of what programs put on every page; left out unless it holds most of the words."""
_COOKIES = re.compile(
    r"\b(?:(?:we|site|website|page|shop) uses? (?:\w+ ){0,3}cookies|uses cookies"
    r"|cookie (?:policy|settings|notice|preferences)"
    r"|accept (?:all )?cookies|(?:verwende[nt]|nutz(?:en|t)) (?:\w+ ){0,3}cookies|utilise (?:des )?cookies"
    r"|utilisons (?:des )?cookies|utiliza(?:mos)? cookies|usa(?:mos)? cookies"
    r"|utilizza (?:i )?cookie|gebruik(?:t|en) cookies)",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"\b(?:accept|agree|allow|reject|decline|got it|ok(?:ay)?|understand|manage|settings|preferences|continu\w+"
    r"|akzeptieren|zustimmen|ablehnen|verstanden|accepter|refuser|aceptar|rechazar|aceitar|accetta|akkoord)\b",
    re.IGNORECASE,
)
_COPYRIGHT = re.compile(
    r"\W*(?:©|\(c\)\s?\d{4}|copyright\s(?:©|\(c\)|\d{4})|all rights reserved\b|alle rechte vorbehalten\b"
    r"|tous droits réservés\b|todos los derechos reservados\b).*"
    r"|.{0,120}(?:©|all rights reserved|alle rechte vorbehalten)\W*",
    re.IGNORECASE | re.DOTALL,
)
_NEWSLETTER = re.compile(
    r"\b(?:newsletter|subscribe (?:now|today|to)|sign up (?:for|to) (?:our|the)|mailing list|abonnieren|s'abonner)\b",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"cookie|©|\(c\)|copyright|rights reserved|rechte vorbehalten|droits réservés|derechos reservados|newsletter"
    r"|subscribe|sign up|mailing list|abonn",
    re.IGNORECASE,
)
"""What every notice contains: a quick test before the others."""
_SKIP_LINK = re.compile(
    r"(?:skip|jump) (?:to|over|past) .{1,40}|zum (?:haupt)?inhalt.{0,20}|back to top", re.IGNORECASE
)
_MAX_NOTICE_CHARS, _MAX_LINE_CHARS, _MAX_NAME_CHARS, _MIN_SENTENCE_CHARS = 600, 160, 1_000, 40
_HIDDEN = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_LINKS_SHARE, _ALWAYS_SHARE, _MIN_LINKS = 0.5, 0.75, 6
_MIN_KEPT_SHARE, _MIN_MAIN_SHARE = 0.2, 0.25
_SPACE = re.compile(r"[^\S\n]+")


def add_markup(
    root: Any, builder: TextBuilder, path: HeadingPath, *, whole: bool = False, page: int | None = None
) -> None:
    """Appends the text of an lxml element to `builder`.

    What is left out as furniture: elements that say so (nav, roles of navigation, classes of menus), blocks of little
    else than links, notices of cookies, forms of newsletters, lines of copyright, and the footer of the page; where
    that would leave less than a fifth of the words and no sentence, all words are kept.

    Args:
        root: an lxml element, its tags in lower case, without namespaces.
        builder: receives the segments.
        path: the headings above, which headings here enter.
        whole: nothing is furniture.
        page: of every segment.

    Raises:
        Rejected: the text would be longer than the limit of the builder.
    """
    links = _Links(root)
    skip: set[Any] = set()
    if not whole:
        skip = _furniture(root, links)
        start = _main(root, links, links.words[root] - sum(links.words[e] for e in skip))
        kept, linked = _kept(start, skip, links)
        if kept >= _MIN_KEPT_SHARE * links.words[root] or kept - linked >= _MIN_SENTENCE_CHARS:
            root = start
        else:
            skip = set()
    _Walk(builder, path, skip, page).walk(root)


class _Links:
    """Characters of text, and of text in links, in and below each element; whether any text may be a notice."""

    def __init__(self, root: Any) -> None:
        self.may_have_notices = _HINT.search(" ".join(root.itertext())) is not None
        self.words: dict[Any, int] = {}
        self.linked: dict[Any, int] = {}
        self.count: dict[Any, int] = {}
        for element in reversed(list(root.iter())):  # children come after their parents
            words = len((element.text or "").strip()) if _shown(element) else 0
            linked = count = 0
            if words or _shown(element):
                for child in element:
                    words += self.words[child] + len((child.tail or "").strip())
                    linked += self.linked[child]
                    count += self.count[child]
                if element.tag == "a" and element.get("href") is not None:
                    linked, count = words, count + 1
            self.words[element], self.linked[element], self.count[element] = words, linked, count

    def share(self, element: Any) -> float:
        return self.linked[element] / max(self.words[element], 1)


def _shown(element: Any) -> bool:
    tag = element.tag
    if not isinstance(tag, str):  # a comment or an instruction
        return False
    if tag in _DROPPED or (tag == "dialog" and element.get("open") is None):
        return False
    return not (
        element.get("hidden") is not None
        or (element.get("aria-hidden") == "true" and not len(element))
        or ("style" in element.attrib and _HIDDEN.search(element.get("style")))
    )


def _kept(start: Any, skip: set[Any], links: _Links) -> tuple[int, int]:
    """Returns the characters below an element without what is left out, and how many of them are in links."""
    inside = [e for e in skip if e is start or start in e.iterancestors()]
    return tuple(values[start] - sum(values[e] for e in inside) for values in (links.words, links.linked))  # type: ignore[return-value]


def _main(root: Any, links: _Links, kept: int) -> Any:
    """Returns the one element that the page calls its main text, when it holds a good part of the words.

    Args:
        root: of the page.
        links: of the page.
        kept: characters of the page that are no furniture.
    """
    marked = [e for e in root.iter("main", "article", "div", "section") if e.tag == "main" or e.get("role") == "main"]
    marked = marked or list(root.iter("article"))
    if len(marked) == 1 and links.words[marked[0]] >= _MIN_MAIN_SHARE * kept:
        return marked[0]
    return root


def _furniture(root: Any, links: _Links) -> set[Any]:
    found: set[Any] = set()
    stack = [(root, False)]
    while stack:
        element, is_main = stack.pop()
        is_main = is_main or element.tag in ("main", "article") or element.get("role") == "main"
        if element is root or not isinstance(element.tag, str):
            stack += [(child, is_main) for child in element]
        elif _is_furniture(element, links) or _is_notice(element, links, is_main, links.words[root]):
            found.add(element)
        else:
            stack += [(child, is_main) for child in element]
    return found


def _is_furniture(element: Any, links: _Links) -> bool:
    tag, share = element.tag, links.share(element)
    if tag == "nav" or (element.get("role") or "").lower() in _FURNITURE_ROLES:
        return True
    many = links.count[element] >= _MIN_LINKS
    if tag in ("aside", "footer", "header") and share > _LINKS_SHARE:
        return True
    name = _name_of(element)
    if name and _FURNITURE_NAME.search(name) and (share > _LINKS_SHARE or tag in ("a", "span")):
        return True
    return many and share > _ALWAYS_SHARE and tag in ("ul", "ol", "div", "table", "section", "dl")


def _name_of(element: Any) -> str:
    parts = (element.get("class"), element.get("id")) if element.attrib else ()
    return " ".join(p for p in parts if p)[:_MAX_NAME_CHARS]


def _is_notice(element: Any, links: _Links, is_main: bool, all_words: int) -> bool:
    """Returns whether an element is what stands on every page: a notice of cookies, a newsletter, a footer."""
    tag, words = element.tag, links.words[element]
    if not words or tag in _LEVELS or tag in ("main", "article", "body"):
        return False
    if tag == "footer" and not is_main:
        return True
    if tag == "header" and not is_main and next(element.iter(*_LEVELS), None) is None and words <= _MAX_LINE_CHARS:
        return next(element.iter("a", "img"), None) is not None  # the name of the site
    if (element.get("role") or "").lower() in ("dialog", "alertdialog") or element.get("aria-modal") == "true":
        return True
    name = _name_of(element)
    if name and _NOTICE_NAME.search(name) and 2 * words < all_words + _MAX_NOTICE_CHARS:
        is_page = next(element.iter("main", "article", "h1"), None) is not None
        return words <= _MAX_NOTICE_CHARS if is_main else not is_page
    if words > _MAX_NOTICE_CHARS or tag not in _NOTICE_TAGS:
        return False
    if not links.may_have_notices and tag not in ("button", "a", "form"):
        return False
    return _has_notice_words(element, words, is_main)


_NOTICE_TAGS = (_BLOCKS - frozenset(_CELLS.split())) | {"button", "a", "small"}


def _has_notice_words(element: Any, words: int, is_main: bool) -> bool:
    text = " ".join(element.itertext())
    if element.tag not in ("button", "a", "form") and not _HINT.search(text):
        return False
    text = one_line(text)
    if element.tag == "button":
        return len(text) <= _MIN_SENTENCE_CHARS and len(text.split()) <= 3 and not text.endswith("?")
    if element.tag == "a":
        return bool(_SKIP_LINK.fullmatch(text))
    if words <= _MAX_LINE_CHARS and _COPYRIGHT.fullmatch(text):
        return True
    if element.tag == "form" and (_NEWSLETTER.search(text) or (not is_main and words <= _MAX_LINE_CHARS)):
        return True
    if is_main:
        return False
    is_cookies = bool(_COOKIES.search(text)) and bool(_CONSENT.search(text))
    return is_cookies or (words <= _MAX_LINE_CHARS and bool(_NEWSLETTER.match(text)))


class _Walk:
    """Collects inline text and gives it out as a segment where a block begins or ends."""

    def __init__(self, builder: TextBuilder, path: HeadingPath, skip: set[Any], page: int | None) -> None:
        self._builder, self._path, self._skip, self._page = builder, path, skip, page
        self._inline: list[str] = []
        self._items = 0  # list items that are open
        self._marker = self._in_list = False

    def walk(self, root: Any) -> None:
        stack: list[tuple[Any, bool]] = [(root, False)]
        while stack:
            element, leaving = stack.pop()
            if leaving:
                self._leave(element, root)
                continue
            if element not in self._skip and _shown(element) and self._enter(element):
                stack.append((element, True))
                stack += [(child, False) for child in reversed(element)]
                self._inline.append(element.text or "")
                continue
            if element is not root:
                self._inline.append(element.tail or "")
        self._flush()

    def _enter(self, element: Any) -> bool:
        """Returns whether the element's children are to be walked."""
        tag = element.tag
        if tag in _LEVELS:
            self._flush()
            if title := one_line(clean_text(_all_text(element, self._skip))):
                level = _LEVELS[tag]
                self._add(title, "heading", heading=self._path.push(level, title))
            return False
        if tag == "pre":
            self._flush()
            code = clean_text(_all_text(element, self._skip)).strip("\n").rstrip()
            if code.strip():
                self._add(code, "code", heading=self._path.path)
            return False
        if tag == "table" and (rows := _rows(element, self._skip)) is not None:
            self._flush()
            for caption in element.iterchildren("caption"):
                if text := one_line(clean_text(_all_text(caption, self._skip))):
                    self._add(text, "prose", heading=self._path.path)
            for block in table_blocks(rows, has_header=_has_header(element)):
                self._add("\n".join(block), "table", heading=self._path.path)
            return False
        if tag == "br":
            self._inline.append("\0")  # no text contains one
        elif tag in _BLOCKS:
            self._flush()
            if tag == "li":
                self._items += 1
                self._marker = True
        return True

    def _leave(self, element: Any, root: Any) -> None:
        if element.tag in _BLOCKS:
            self._flush()
            if element.tag == "li":
                self._items -= 1
                self._marker = False
        if element is not root:
            self._inline.append(element.tail or "")

    def _flush(self) -> None:
        text = "".join(self._inline)
        self._inline = []
        text = "\n".join(one_line(clean_text(line)) for line in text.split("\0")).strip()
        if not text:
            return
        item = self._marker
        self._marker = False
        gap = "\n" if item and self._in_list else "\n\n"
        self._builder.add(f"- {text}" if item else text, "prose", gap=gap, heading=self._path.path, page=self._page)
        self._in_list = item

    def _add(self, text: str, kind: Kind, heading: str | None) -> None:
        self._builder.add(text, kind, heading=heading, page=self._page)
        self._in_list = self._marker = False


def _all_text(element: Any, skip: set[Any]) -> str:
    """Returns the text below an element, a line end for each `br` and a space where a block divides words."""
    parts: list[str] = []
    stack: list[tuple[Any, bool]] = [(element, True)]
    while stack:
        node, entering = stack.pop()
        if not entering:
            parts.append(node.tail or "" if node is not element else "")
            continue
        stack.append((node, False))
        if node in skip or not _shown(node):
            continue
        if node.tag == "br":
            parts.append("\n")
        elif node.tag in _BLOCKS and node is not element:
            parts.append(" ")
        parts.append(node.text or "")
        stack += [(child, True) for child in reversed(node)]
    return "".join(parts)


def _rows(table: Any, skip: set[Any]) -> list[str] | None:
    """Returns a line for each row with text, null when the table only lays out a page."""
    if next(table.iterdescendants("table"), None) is not None and not _is_data(table):
        return None
    rows: list[str] = []
    widest = 0
    for row in table.iter("tr"):
        if next(row.iterancestors("table"), None) is not table or row in skip:
            continue
        cells = [one_line(clean_text(_all_text(c, skip))) for c in row.iterchildren("td", "th") if c not in skip]
        widest = max(widest, len(cells))
        if any(cells):
            rows.append("| " + " | ".join(cells) + " |")
    if not rows and widest == 0:
        return None
    return None if widest < 2 and not _is_data(table) else rows


def table_rows(fragment: str) -> list[str]:
    """Returns the rows of a fragment's only table, `| Status | Accepted |`; nothing where it is only for the layout."""
    from lxml import html

    tables = list(html.fragment_fromstring(fragment, create_parent="div").iter("table"))
    return (_rows(tables[0], set()) or []) if len(tables) == 1 else []


def _has_header(table: Any) -> bool:
    """Returns whether the first row of a table names its columns."""
    row = next(table.iter("tr"), None)
    return row is not None and next(row.iterchildren("td"), None) is None


def _is_data(table: Any) -> bool:
    own = (e for e in table.iter("th", "caption", "thead") if next(e.iterancestors("table"), None) is table)
    return table.get("role") not in ("presentation", "none") and next(own, None) is not None


_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?\s*+([\w-]+)", re.IGNORECASE)
_MAX_META_CHARS, _MAX_SCRIPT_CHARS = 1_000, 200_000
_CHANGED = ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified", "datemodified")
_PUBLISHED = (
    "article:published_time",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.created",
    "dcterms.issued",
    "pubdate",
    "publish_date",
    "publication_date",
    "citation_publication_date",
    "datepublished",
)
_KEPT = {"description": ("description", "og:description"), "author": ("author", "article:author", "dc.creator")}


# What only the pages have that chat programs export: who says what, and when, is lost in their text.
_CHAT_PAGES = (
    ("Telegram", (b'class="page_wrap', b'class="message default clearfix')),
    ("Discord", (b"chatlog__message", b"chatlog__")),
    ("ChatGPT", (b"ChatGPT Data Export", b"jsonData")),
    ("Gemini", (b"outer-cell mdl-cell", b"Gemini Apps")),
    ("Messenger or Instagram", (b"_a6-g", b"_a6-p", b"_3-95")),
)


def read_html(source: Source, limits: Limits) -> Extraction:
    """Reads a page: main text without menus; `metadata` has description, author, language and url where stated.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
    if program := next((name for name, marks in _CHAT_PAGES if all(m in source.data for m in marks)), None):
        raise Rejected(f"a chat of {program} as a page: export it again as JSON, and leave this page out")
    root, problems = parse_html(source.data, limits)
    builder = TextBuilder(limits.max_chars)
    body = root.find("body")
    add_markup(root if body is None else body, builder, HeadingPath())
    if not builder.segments:
        if problems:
            raise Rejected(f"{problems[0]}; and no text precedes it: simplify the page")
        raise Rejected("empty: the page holds no text; it may be drawn by a script: save what a browser shows")
    meta = _meta(root)
    metadata: JsonObject = {
        key: value
        for key, names in _KEPT.items()
        if (value := next((meta[n] for n in names if n in meta), None)) and "://" not in value
    }
    if language := parse_name(root.get("lang")):
        metadata["language"] = language
    link = next((e for e in root.iter("link") if (e.get("rel") or "").lower() == "canonical"), None)
    if link is not None and (url := parse_name(link.get("href"))):
        metadata["url"] = url[:_MAX_META_CHARS]
    title = next((one_line(clean_text("".join(e.itertext()))) for e in root.iter("title")), "")
    heading = (first_heading(builder.segments) or "").split(" > ")[0]
    document = builder.to_document(
        source,
        "text/html",
        title=(title or meta.get("og:title") or heading)[:_MAX_META_CHARS],
        source_time=first_date(meta, *_CHANGED, *_PUBLISHED, order=source.dates),
        metadata=metadata,
    )
    return Extraction((document,), limit_problems(problems, limits))


def parse_html(data: bytes, limits: Limits) -> tuple[Any, list[str]]:
    """Returns the root element of a page in its stated or detected encoding, and problems.

    Raises:
        Rejected: binary, unknown encoding or empty.
    """
    from lxml import etree

    text = _decode(data, limits)
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise Rejected("empty: the page holds no element with text")
    for element in root.iter():  # SVG and MathML in XHTML bring namespaces
        if isinstance(element.tag, str) and "}" in element.tag:
            element.tag = element.tag.rpartition("}")[2]
    deep = any("xcessive depth" in e.message for e in parser.error_log)
    return root, ["nested more than 256 levels deep: what follows there was not read"] if deep else []


def _decode(data: bytes, limits: Limits) -> str:
    if (stated := _CHARSET.search(data[:4096])) and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            text = clean_text(data.decode(stated[1].decode("ascii")))
        except (UnicodeDecodeError, LookupError):
            return decode(data, limits)
        if text.strip() and len(text) <= limits.max_chars and text.count("\ufffd") == 0:
            return text
    return decode(data, limits)


def _meta(root: Any) -> dict[str, str]:
    """Returns the metadata of a page by lower-case name: meta elements, JSON-LD dates, the first `time`."""
    found: dict[str, str] = {}
    for element in root.iter("meta"):
        name = element.get("property") or element.get("name") or element.get("itemprop") or element.get("http-equiv")
        content = one_line(clean_text(element.get("content") or ""))[:_MAX_META_CHARS]
        if name and content:
            found.setdefault(name.strip().lower(), content)
    for element in root.iter("script"):
        if element.get("type") == "application/ld+json" and len(element.text or "") <= _MAX_SCRIPT_CHARS:
            for key, value in _linked_data(element.text or ""):
                found.setdefault(key, value)
    stamp = next((e.get("datetime") for e in root.iter("time") if e.get("datetime")), None)
    if stamp and next(root.iter("article"), None) is not None:
        found.setdefault("datepublished", stamp)
    return found


def _linked_data(script: str) -> list[tuple[str, str]]:
    try:
        data = json.loads(script)
    except (ValueError, RecursionError):
        return []
    items = data.get("@graph", [data]) if isinstance(data, dict) else data
    return [
        (key.lower(), item[key])
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict)
        for key in ("dateModified", "datePublished")
        if isinstance(item.get(key), str)
    ]
