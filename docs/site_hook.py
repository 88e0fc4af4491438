"""MkDocs hook: the front page is README.md, and what pages link to outside of docs/ is part of the site.

`make docs-site` runs it. The sources keep links that work on GitHub; here they lead to pages of the site.
"""

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


def site_path(path: str) -> str:
    """Returns where a file of the repository is in the site."""
    return NAMES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}")


def linked(path: str) -> list[str]:
    """Returns the files of the repository that a page links to."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = [posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(m[2]))) for m in LINK.finditer(text)]
    return [name for name in found if (ROOT / name).is_file()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the front page, the changes, and files outside of docs/ that pages lead to."""
    waiting = [*NAMES, *(f"docs/{page.src_uri}" for page in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            waiting += [new for new in dict.fromkeys(linked(path)) if new not in seen and not seen.add(new)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the text of a page with its links as the site has them."""
    here = Path(str(page.file.abs_src_path)).relative_to(ROOT).as_posix()
    folder = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), unquote(link[2])))
        if not (ROOT / path).is_file():
            return link[0]
        return f"{link[1]}{posixpath.relpath(site_path(path), folder or '.')}{link[3] or ''})"

    return LINK.sub(moved, markdown)
