"""A home with one collection, and a server of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from palimpsest.sources.crawl.address_guard import VARIABLE
from palimpsest.store.home import Home
from tests.small_corpus import write_notes
from tests.sources.crawl.local_site import LocalSite, serve


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSite]:
    """A server without pages, which the operator of the home permits."""
    with serve({}) as local:
        monkeypatch.setenv(VARIABLE, "127.0.0.1")
        yield local


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that knows one collection, whose pages belong to `shared`."""
    home = Home(tmp_path / "home")
    home.create()
    home.remember_sources({"notes": write_notes(tmp_path / "corpus", {}) / "notes"})
    return home
