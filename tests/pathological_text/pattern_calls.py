"""Calls that apply regular expressions, read from syntax trees: which pattern, by which method."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# What `sub`, `split` and the like do is to find every match.
_METHOD = {
    "compile": "compile", "search": "search", "match": "match", "fullmatch": "fullmatch",
    **dict.fromkeys(("finditer", "findall", "sub", "subn", "split"), "finditer"),
}  # fmt: skip
_FLAGS_AT = {"compile": 1, "sub": 4, "subn": 4, "split": 3}  # place of the flags among the arguments; 2 for the rest
_POLARS_METHOD = {
    **dict.fromkeys(("contains", "find", "extract", "extract_groups", "replace"), "search"),
    **dict.fromkeys(("extract_all", "replace_all", "count_matches"), "finditer"),
}


@dataclass(frozen=True, slots=True)
class PatternCall:
    """A call with a pattern that constants give.

    Attributes:
        line: of the call.
        method: compile, search, match, fullmatch or finditer.
        pattern: what it compiles.
        flags: of `re`.
    """

    line: int
    method: str
    pattern: str | bytes
    flags: int


def calls_of_re(tree: ast.Module, names: Mapping[str, object]) -> Iterator[PatternCall]:
    """Yields the calls of functions of `re` whose pattern is constant.

    Args:
        tree: the syntax tree of a module.
        names: the module's names with their values.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        pattern = constant(node.args[0], names) if of_re and node.func.attr in _METHOD else None
        if isinstance(pattern, str | bytes):
            yield PatternCall(node.lineno, _METHOD[node.func.attr], pattern, _flags(node, node.func.attr, names))


def calls_of_polars(tree: ast.Module, names: Mapping[str, object]) -> Iterator[PatternCall]:
    """Yields the calls of `.str.contains` and the like whose pattern is constant and no literal text."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        of_text = isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "str"
        literal = any(k.arg == "literal" for k in node.keywords)
        if of_text and not literal and node.func.attr in _POLARS_METHOD:
            pattern = constant(node.args[0], names)
            if isinstance(pattern, str):
                yield PatternCall(node.lineno, _POLARS_METHOD[node.func.attr], pattern, 0)


def methods_of_names(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """Returns by which methods the names of modules are applied, for names that have no other use anywhere.

    A name counts as applied where a method of it is called, of an item of it, or of what a loop over it yields.

    Args:
        trees: syntax trees by the names of their modules.

    Returns:
        Methods by module and name, where the name is assigned.
    """
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    unclear: set[tuple[str, str]] = set()
    for module, tree in trees.items():
        parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        origins = _origins(module, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in origins:
                methods = _methods_of_use(node, tree, parents)
                found[origins[node.id]] |= methods
                if not methods:
                    unclear.add(origins[node.id])
    return {name: methods for name, methods in found.items() if name not in unclear}


def _origins(module: str, tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Returns the names that a module assigns or imports, with the module that assigns them and their name there."""
    found: dict[str, tuple[str, str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            found |= {n.id: (module, n.id) for n in stored}
        elif isinstance(statement, ast.ImportFrom):
            found |= {alias.asname or alias.name: (statement.module or "", alias.name) for alias in statement.names}
    return found


def _methods_of_use(name: ast.expr, tree: ast.Module, parents: Mapping[int, ast.AST]) -> set[str]:
    """Returns the methods by which one use of a name applies it; none where that is not seen here."""
    parent = parents[id(name)]
    if isinstance(parent, ast.Attribute) and parent.attr in _METHOD:
        return {_METHOD[parent.attr]}
    if isinstance(parent, ast.Tuple) or (isinstance(parent, ast.Subscript) and parent.value is name):
        return _methods_of_use(parent, tree, parents)
    if isinstance(parent, ast.Attribute) and parent.attr in ("items", "values"):
        return _methods_of_use(parents[id(parent)], tree, parents)  # type: ignore[arg-type]
    if isinstance(parent, ast.For | ast.comprehension) and parent.iter is name:
        targets = {n.id for n in ast.walk(parent.target) if isinstance(n, ast.Name)}
        loads = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in targets)
        uses = (parents[id(n)] for n in loads)
        return {_METHOD[use.attr] for use in uses if isinstance(use, ast.Attribute) and use.attr in _METHOD}
    return set()


def constant(node: ast.expr, names: Mapping[str, object]) -> object:
    """Returns the value of an expression of constants, names of the module and `re` flags; None for any other."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re":
        return getattr(re, node.attr, None)
    if isinstance(node, ast.JoinedStr):
        parts = [constant(p.value if isinstance(p, ast.FormattedValue) else p, names) for p in node.values]
        return "".join(map(str, parts)) if all(isinstance(p, str | int) for p in parts) else None
    if isinstance(node, ast.BinOp):
        left, right = constant(node.left, names), constant(node.right, names)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(node.op, ast.BitOr) and isinstance(left, int) and isinstance(right, int):
            return left | right
    return None


def _flags(node: ast.Call, method: str, names: Mapping[str, object]) -> int:
    at = _FLAGS_AT.get(method, 2)
    given = [k.value for k in node.keywords if k.arg == "flags"] + node.args[at : at + 1]
    flags = constant(given[0], names) if given else 0
    return int(flags) if isinstance(flags, int) else 0
