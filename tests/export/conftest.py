"""Two homes and their exports, each made once in a test process; tests change copies."""

import shutil

import pytest

from palimpsest.export.export_user import export_user
from palimpsest.store.home import Home
from tests.export.made import make, make_export
from tests.small_corpus import copy_built


@pytest.fixture(scope="session")
def made(tmp_path_factory, shared_vectors):
    """The folder of a home of two users, its corpus and an export of ann."""
    base = tmp_path_factory.mktemp("made")
    export_user(make(base, shared_vectors)[0], "ann", base / "out")
    return base


@pytest.fixture
def copy(made, tmp_path, shared_vectors):
    """A home, its corpus and an export of it, all to be changed."""
    home, corpus = copy_built(made, tmp_path)
    shutil.copytree(made / "out", tmp_path / "out")
    return Home(home.path, shared_vectors), corpus, tmp_path / "out"


@pytest.fixture(scope="session")
def exported(tmp_path_factory, shared_vectors):
    """The folder of such a home with decisions and operations, and an export of ann."""
    base = tmp_path_factory.mktemp("exported")
    make_export(base, shared_vectors)
    return base


@pytest.fixture
def out(exported, tmp_path):
    """A copy of that export, to be changed."""
    return shutil.copytree(exported / "out", tmp_path / "out")
