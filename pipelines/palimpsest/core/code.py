"""Hashes of the project's own code: a stage whose code changed is run again (decision 16)."""

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_PACKAGE, _EVAL = "palimpsest", "palimpsest_eval"
# What these change shows in the tables (their schemas are hashed with the code) or not at all.
_PLUMBING = ("palimpsest.core", "palimpsest.store", "palimpsest.pipeline.stage")
_OWN_IMPORT = re.compile(
    rb"^[ \t]*(?:import (palimpsest[\w.]*)|from (palimpsest[\w.]*) import (?:\(([^)]*)\)|([^\n(]*)))", re.MULTILINE
)
_NAME = re.compile(rb"^\s*(\w+)")


def code_hash(modules: Iterable[str]) -> str:
    """Returns one hash over the sources of modules, packages and all of the project's code that they import.

    A module of another package, such as a stage that it adds, counts with its own file. A process reads each source
    once, so that what it has computed stays valid: a build needs the hash of each stage several times.
    """
    return _hash_of(tuple(modules))


@cache
def _hash_of(modules: tuple[str, ...]) -> str:
    h = hashlib.blake2b(digest_size=8)
    for name in modules:
        if _is_own(name) and _source(name) is None:
            raise ValueError(f"code_hash: no module {name}")
    for name in sorted(_reachable(modules)):
        h.update(name.encode() + b"\0" + (_source(name) or b""))
    return h.hexdigest()


def _reachable(modules: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    waiting = [m for name in modules for m in _members(name)]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [i for i in _imports(name) if not _is_plumbing(i)]
    return seen


def _is_plumbing(name: str) -> bool:
    return any(name == p or name.startswith(f"{p}.") for p in _PLUMBING)


def _members(name: str) -> Iterator[str]:
    if not _is_own(name) or not (folder := _module_path(name)).is_dir():
        yield name
        return
    for path in sorted(folder.rglob("*.py")):
        yield ".".join((name, *path.relative_to(folder).with_suffix("").parts))


@cache
def _folders() -> dict[str, Path]:
    """Returns the folders of the two packages: side by side when installed, in two folders of a checkout."""
    package = Path(__file__).resolve().parents[1]
    places = (package.parent / _EVAL, package.parents[1] / "eval" / _EVAL)
    return {_PACKAGE: package, _EVAL: next(p for p in places if p.is_dir())}


def _module_path(name: str) -> Path:
    root, *parts = name.split(".")
    return _folders()[root].joinpath(*parts)


def _is_own(name: str) -> bool:
    return name.split(".")[0] in (_PACKAGE, _EVAL)


def _path(name: str) -> Path:
    if not _is_own(name):
        return Path(sys.modules[name].__file__ or "")
    path = _module_path(name)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _source(name: str) -> bytes | None:
    path = _path(name)
    return path.read_bytes() if path.is_file() else None


@cache
def _imports(name: str) -> frozenset[str]:
    """Returns the project's modules that a module imports anywhere, lazily too."""
    source = _source(name)
    if source is None:
        return frozenset()
    found = own_imports(source) if _is_own(name) else parsed_imports(source)
    return frozenset(m for m in found if _is_own(m) and _source(m) is not None)


def own_imports(source: bytes) -> set[str]:
    """Returns the project's modules and names that a module of the project imports.

    By expression: parsing all modules takes most of a second, each time a command plans a build. Imports have one form
    by the project's formatter; a test compares both for every module.
    """
    found: set[str] = set()
    for plain, module, in_parentheses, on_line in _OWN_IMPORT.findall(source):
        found.add((plain or module).decode())
        names = in_parentheses.replace(b"\n", b",") or on_line
        found |= {f"{module.decode()}.{m[1].decode()}" for part in names.split(b",") if (m := _NAME.match(part))}
    return found


def parsed_imports(source: bytes) -> set[str]:
    """Returns the modules and names that a module imports, whatever the form of its source."""
    found: set[str] = set()
    for node in _statements(source):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found |= {f"{node.module}.{a.name}" for a in node.names}
    return found


def _statements(source: bytes) -> Iterator[ast.AST]:
    """Yields the statements of a module at every depth: imports are statements, and most nodes are expressions."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())
