"""Fields in YAML, for front matter and sidecars, read as their author wrote them."""

import re
from collections.abc import Hashable
from typing import Any, NamedTuple

import yaml

from palimpsest.sources.readers.common.scope_fields import SCOPE_FIELDS

_INT, _FLOAT, _BOOL, _TIME, _TEXT = (f"tag:yaml.org,2002:{t}" for t in ("int", "float", "bool", "timestamp", "str"))
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class YamlFields(NamedTuple):
    """A YAML document: its value, a problem for each field that cannot be kept, and the fields stated twice."""

    value: object
    problems: list[str]
    repeated: set[str]


def load_yaml_fields(text: str) -> YamlFields:
    """Returns the value of one YAML document.

    Unlike YAML 1.1, `012`, `0x1F`, `1_000` and `12:30` are text, not the numbers 10, 31, 1000 and 750. A user, project,
    session or title is text as written, also where it looks like a number or a date.

    Raises:
        yaml.YAMLError, ValueError, RecursionError and what else PyYAML lets through: not valid YAML.
    """
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            _keep_names_as_written(root)
        value = None if root is None else loader.construct_document(root)
        return YamlFields(value, loader.problems, loader.repeated)
    finally:
        loader.dispose()


def _keep_names_as_written(root: yaml.MappingNode) -> None:
    for key, value in root.value:
        as_text = {_INT, _FLOAT, _TIME} if key.value in SCOPE_FIELDS else {_INT, _FLOAT, _TIME, _BOOL}
        if key.value in (*SCOPE_FIELDS, "title") and isinstance(value, yaml.ScalarNode) and value.tag in as_text:
            value.tag = _TEXT


class _Loader(yaml.SafeLoader):
    """Not the C loader: deep nesting crashes the whole process there."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.problems: list[str] = []
        self.repeated: set[str] = set()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            self._check(node)
        return super().construct_mapping(node, deep)

    def _check(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            name = key.value[:40]
            if key.value in seen:
                self.repeated.add(key.value)
                self.problems.append(f"{name} is stated twice; remove one")
            seen.add(key.value)
            if isinstance(value, yaml.ScalarNode) and value.tag == _FLOAT and _NOT_FINITE.fullmatch(value.value):
                self.problems.append(f"{name} {value.value} is no finite number; write one, or leave the field out")


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+0123456789."),
)
