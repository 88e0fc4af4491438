from palimpsest.code import _reachable, code_hash


def test_a_stage_depends_on_the_code_that_its_module_imports():
    reached = _reachable(["palimpsest.memory.entities"])
    assert {"palimpsest.memory.entities", "palimpsest.memory.words"} <= reached
    assert not any(m.startswith("palimpsest.store") for m in reached)


def test_the_hash_tells_modules_apart_and_is_the_same_twice():
    assert code_hash(["palimpsest.memory.form"]) == code_hash(["palimpsest.memory.form"])
    assert code_hash(["palimpsest.memory.form"]) != code_hash(["palimpsest.memory.topics"])
