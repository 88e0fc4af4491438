from pipelines.code import _reachable, code_hash


def test_a_stage_depends_on_the_code_that_its_module_imports():
    reached = _reachable(["pipelines.memory.entities"])
    assert {"pipelines.memory.entities", "pipelines.memory.words"} <= reached
    assert not any(m.startswith("pipelines.store") for m in reached)


def test_the_hash_tells_modules_apart_and_is_the_same_twice():
    assert code_hash(["pipelines.memory.form"]) == code_hash(["pipelines.memory.form"])
    assert code_hash(["pipelines.memory.form"]) != code_hash(["pipelines.memory.topics"])
