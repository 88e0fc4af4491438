import ast

import pytest

from palimpsest.core.code import _folders, _reachable, _statements, code_hash, own_imports, parsed_imports


def test_a_stage_depends_on_the_code_that_its_module_imports():
    reached = _reachable(["palimpsest.entities.entity_tables"])
    assert {"palimpsest.entities.entity_tables", "palimpsest.text.words"} <= reached
    assert not any(m.startswith("palimpsest.store") for m in reached)


def test_the_hash_differs_between_modules_and_is_stable():
    assert code_hash(["palimpsest.memories.form"]) == code_hash(["palimpsest.memories.form"])
    assert code_hash(["palimpsest.memories.form"]) != code_hash(["palimpsest.entities.topics"])
    with pytest.raises(ValueError, match="no module"):
        code_hash(["palimpsest.memories.gone"])


def test_imports_at_every_depth_of_a_module_are_found():
    source = b"""
import a
class C:
    def f(self):
        try:
            if x:
                import b
        except E:
            from c import d
        finally:
            with e:
                import f
    match x:
        case 1:
            import g
"""
    assert sum(isinstance(s, ast.Import | ast.ImportFrom) for s in _statements(source)) == 5


def test_imports_found_by_expression_are_those_of_the_parser_in_every_module():
    modules = [path for folder in set(_folders().values()) for path in folder.rglob("*.py")]
    assert len(modules) > 300
    for path in modules:
        source = path.read_bytes()
        parsed = {name for name in parsed_imports(source) if name.split(".")[0] in ("palimpsest", "palimpsest_eval")}
        assert own_imports(source) == parsed, path
