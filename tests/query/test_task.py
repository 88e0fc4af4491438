"""The task of a search: its brief leads the context, within the budget, once, and only in its scope."""

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.store.home import Home
from tests.small_corpus import write_notes

NOTES = {
    "tasks/annex.md": "---\ntype: task\nuser_id: ann\ntitle: Open the annex\nstatus: open\nlinks: [rooms.md]\n---\n"
    "The annex must open before the harbor fair in June.\n",
    "tasks/roof.md": "---\ntype: task\nuser_id: bob\ntitle: Repair the roof\nstatus: open\n---\nThe mill leaks.\n",
    "rooms.md": "---\nuser_id: ann\n---\nThe annex has four rooms and a kitchen.\n",
    "boats.md": "---\nuser_id: ann\n---\nThe red boat is in the harbor since March.\n",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("task")
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [write_notes(base / "corpus", NOTES)]))
    return home


@pytest.mark.parametrize("name", ["tasks/annex.md", "Open the annex"])
@pytest.mark.parametrize("question", ["Where is the red boat?", "When must the annex open?"])
def test_the_brief_of_the_task_leads_the_context_once(home, name, question):
    with open_home(home.path) as reader:
        answer = reader.search(question, ("notes", "ann"), task=name, budget_tokens=300, sources="full")
    lines = answer.context.splitlines()
    assert lines[0] == "Task:" and "before the harbor fair" in lines[1] and answer.context.count("harbor fair") == 1
    assert answer.context_tokens <= 300 and answer.context.count("Sources:") == 1 and "red boat" in answer.context
    cited = {line.split("]")[0] for line in lines[lines.index("Sources:") + 1 :]}
    assert cited == {f"[memory:{i}" for i in answer.packed_ids}
    shown = answer.message()["content"].splitlines()
    assert shown[3] == "Task:" and shown[4].startswith("- (notes/ann; undated) ")


def test_tasks_are_filtered_by_status_and_found_in_their_scope_alone(home):
    with open_home(home.path) as reader:
        found = reader.search("annex", ("notes", "ann"), tiers=["task"], where='status = "open"').memories
        assert [m.uri for m in found] == ["tasks/annex.md"]
        for name in ("tasks/roof.md", "Repair the roof", "rooms.md"):
            with pytest.raises(ArgumentError, match=r"task=.*no memory of type task"):
                reader.search("annex", ("notes", "ann"), task=name)


def test_a_task_is_summed_up_from_its_source_and_its_links_alone(home):
    with open_home(home.path) as reader:
        found = reader.summarize_task(("notes", "ann"), "Open the annex")
        with pytest.raises(ArgumentError, match="task"):
            reader.summarize_task(("notes", "ann"), "Repair the roof")
    texts = [s.text for s in found.sentences]
    assert any("harbor fair" in t for t in texts) and any("four rooms" in t for t in texts)
    assert not any("red boat" in t for t in texts) and found.memories == 2
