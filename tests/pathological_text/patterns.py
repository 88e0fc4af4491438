"""Every regular expression of the package: compiled ones of modules, those in calls, and those that polars applies."""

import ast
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType

import palimpsest
import palimpsest_eval
from tests.pathological_text.pattern_calls import (
    PatternCall,
    calls_of_polars,
    calls_of_re,
    methods_of_names,
)

METHODS = ("finditer", "fullmatch", "match", "search")
_MENTIONS = re.compile(r"\bre\.|\.str\.|Pattern|pattern")
_MAX_DEPTH = 6  # of what modules keep patterns in
_NOT_THE_PRODUCT = ("palimpsest_eval.testing.",)
# A pattern of a library that is applied to short texts alone: the code checks their length first.
_MOST_CHARS = {"palimpsest.sources.readers.mail_body._pattern": 400, "palimpsest.text.sentences._LAST_WORD": 24}


@dataclass(frozen=True, slots=True)
class FoundPattern:
    """A regular expression and how the code applies it.

    Attributes:
        where: module and name, or module and line of the call.
        pattern: as it is compiled; one of bytes is read as Latin-1.
        flags: of `re`; 0 for polars.
        is_bytes: whether it matches bytes.
        engine: `re` or `polars`.
        methods: by which of METHODS it is applied; all of them where the code does not show it.
        most_chars: the longest text that it is applied to; none where there is no limit.
    """

    where: str
    pattern: str
    flags: int
    is_bytes: bool
    engine: str
    methods: tuple[str, ...]
    most_chars: int | None = None


def collect_patterns(exclude: tuple[str, ...] = _NOT_THE_PRODUCT) -> list[FoundPattern]:
    """Returns each regular expression of the package once, ordered by where it is.

    Args:
        exclude: beginnings of names of modules that are left out.
    """
    modules = [*_modules(exclude)]
    methods = methods_of_names({module.__name__: tree for module, tree in modules})
    found: dict[tuple[str, str, int, bool], FoundPattern] = {}
    for module, tree in modules:
        for pattern in (*_kept(module, tree, methods), *_called(module, tree)):
            key = pattern.engine, pattern.pattern, pattern.flags, pattern.is_bytes
            first = found.setdefault(key, pattern)
            found[key] = replace(first, methods=tuple(sorted({*first.methods, *pattern.methods})))
    return sorted(found.values(), key=lambda p: (p.where, p.pattern, p.flags))


def _modules(exclude: tuple[str, ...]) -> Iterator[tuple[ModuleType, ast.Module]]:
    """Yields the modules whose source mentions patterns, with their syntax trees; no other is imported."""
    for package in (palimpsest, palimpsest_eval):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            spec = importlib.util.find_spec(info.name) if not info.name.startswith(exclude) else None
            if spec is None or info.name.endswith("__main__"):
                continue
            source = getattr(spec.loader, "get_source", lambda _: None)(info.name) or ""
            if _MENTIONS.search(source):
                yield importlib.import_module(info.name), ast.parse(source)


def _kept(
    module: ModuleType, tree: ast.Module, methods: Mapping[tuple[str, str], Collection[str]]
) -> Iterator[FoundPattern]:
    """Yields the compiled patterns that a module assigns to names, and those of functions that only make patterns."""
    assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name, value in sorted(vars(module).items()):
        if name in assigned:
            for pattern in _inside(value):
                known = methods.get((module.__name__, name), METHODS)
                yield _compiled(f"{module.__name__}.{name}", pattern, known)
            for rule in _rules_of_polars(value):
                yield FoundPattern(f"{module.__name__}.{name}", rule, 0, False, "polars", ("search",))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _makes_patterns(node):
            for pattern in _inside(getattr(module, node.name)()):
                yield _compiled(f"{module.__name__}.{node.name}", pattern, METHODS)


def _makes_patterns(node: ast.FunctionDef) -> bool:
    """Returns whether a function needs no argument, and its own text shows that it returns patterns."""
    calls = any(isinstance(n, ast.Attribute) and n.attr == "compile" for n in ast.walk(node))
    parameters = node.args
    return calls and not (parameters.args or parameters.kwonlyargs or parameters.posonlyargs)


def _inside(value: object, depth: int = 0) -> Iterator["re.Pattern[str] | re.Pattern[bytes]"]:
    """Yields the patterns in a value and in what it contains."""
    if isinstance(value, re.Pattern):
        yield value
    if depth < _MAX_DEPTH:
        for part in _parts(value):
            yield from _inside(part, depth + 1)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, f.name) for f in fields(value))


def _rules_of_polars(value: object, depth: int = 0) -> Iterator[str]:
    """Yields the field `pattern` of rules, where it is text: polars applies it."""
    rule = getattr(value, "pattern", None)
    if isinstance(value, tuple) and isinstance(rule, str):
        yield rule
    elif depth < _MAX_DEPTH:
        for part in _parts(value):
            yield from _rules_of_polars(part, depth + 1)


def _compiled(where: str, pattern: "re.Pattern[str] | re.Pattern[bytes]", methods: Collection[str]) -> FoundPattern:
    text = pattern.pattern
    is_bytes = isinstance(text, bytes)
    plain = text.decode("latin-1") if isinstance(text, bytes) else text
    return FoundPattern(where, plain, pattern.flags, is_bytes, "re", tuple(sorted(methods)), _MOST_CHARS.get(where))


def _called(module: ModuleType, tree: ast.Module) -> Iterator[FoundPattern]:
    """Yields the patterns that are written in calls, also inside functions, where constants give them."""
    kept = {n.value.lineno for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and n.value is not None}
    for call in calls_of_re(tree, vars(module)):
        if call.method != "compile" or call.line not in kept:
            where = f"{module.__name__}:{call.line}"
            methods = METHODS if call.method == "compile" else [call.method]
            yield _compiled(where, re.compile(call.pattern, call.flags), methods)
    for call in calls_of_polars(tree, vars(module)):
        yield _of_polars(module, call)


def _of_polars(module: ModuleType, call: PatternCall) -> FoundPattern:
    assert isinstance(call.pattern, str)
    return FoundPattern(f"{module.__name__}:{call.line}", call.pattern, 0, False, "polars", (call.method,))
