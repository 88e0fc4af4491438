"""Writes small files of a home again that say nothing of its memories: folders, format, the copy of the tokenizer."""

from pathlib import Path

from palimpsest.core.errors import DamagedFile
from palimpsest.core.home_format import FORMAT, FORMAT_FILE, read_format, write_format
from palimpsest.index.index_format import index_format
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import find_collections
from palimpsest.store.home import SOURCES_FILE, Home
from palimpsest.text.tokenizer import has_damaged_tokenizer, save_tokenizer


def repair_sources(home: Home, corpora: list[Path] | None) -> list[str]:
    """Records the folders of collections again where their list is damaged; returns a line for it.

    Raises:
        DamagedFile: the list is damaged, and no folders are given.
    """
    try:
        _ = home.sources
        return []
    except DamagedFile:
        if corpora is None:
            raise
        (home.path / SOURCES_FILE).unlink()
    own = home.path / "collections"
    found = find_collections([*corpora, *([own] if own.is_dir() else [])])
    home.write_sources({name: folder.resolve() for name, folder in found.items()})
    return [f"{SOURCES_FILE} was damaged; the folders of collections are those of --corpus"]


def repair_tokenizer(home: Home) -> list[str]:
    """Writes the copy of the tokenizer where there is none or it is damaged; returns a line for a damaged one."""
    is_damaged = has_damaged_tokenizer(home.path)
    save_tokenizer(home.path)
    return ["tokenizer.json.gz was damaged; it is written again"] if is_damaged else []


def repair_format(home: Home, build: Build) -> list[str]:
    """Records the format of a home again, as its index states it; returns a line where that was damaged."""
    if not is_format_damaged(home) or index_format(build.index) != FORMAT:
        return []
    write_format(home.path)
    return [f"{FORMAT_FILE} was damaged; it is written again"]


def damaged_settings(home: Home) -> list[Path]:
    """Returns those of these files that are damaged."""
    found = [home.path / FORMAT_FILE] if is_format_damaged(home) else []
    try:
        _ = home.sources
    except DamagedFile as e:
        found.append(e.path)
    return found + ([home.path / "tokenizer.json.gz"] if has_damaged_tokenizer(home.path) else [])


def is_format_damaged(home: Home) -> bool:
    """Returns whether a home records a format that cannot be read; homes of earlier versions record none."""
    return (home.path / FORMAT_FILE).exists() and read_format(home.path) is None
