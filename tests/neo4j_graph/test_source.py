"""The id of a home on the server stays with it, and does not go along with a copy."""

import shutil
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.identity import home_id, is_served
from palimpsest.neo4j_graph.neo4j_backend import open_neo4j
from palimpsest.store.home import Home


def home_in(folder: Path) -> Home:
    home = Home(folder)
    home.create()
    return home


def test_a_home_keeps_its_id_where_it_lies_and_where_it_is_moved_to(tmp_path):
    home = home_in(tmp_path / "a")
    assert not is_served(home)
    name = home_id(home)
    assert home_id(home) == name and is_served(home)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert home_id(Home(tmp_path / "link")) == name
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = Home(tmp_path / "b")
    assert is_served(moved) and home_id(moved) == name


def test_a_copy_of_a_home_is_not_served_and_gets_an_id_of_its_own(tmp_path):
    home = home_in(tmp_path / "a")
    name = home_id(home)
    copy = Home(shutil.copytree(home.path, tmp_path / "b"))
    assert not is_served(copy) and is_served(home)
    with pytest.raises(PalimpsestError, match="never loaded into Neo4j"):
        open_neo4j(copy.path)
    assert home_id(copy) != name and home_id(home) == name
    shutil.rmtree(home.path)
    assert is_served(copy) and home_id(copy) == home_id(copy) != name
