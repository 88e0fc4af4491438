"""Exports of ChatGPT and Claude, and messages with parts and calls of tools."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction
from tests.sources.segment_texts import segment_texts


def node(parent: str | None, role: str, *parts: object, **message: Any) -> dict:
    content = {"content_type": "text", "parts": list(parts)}
    return {"parent": parent, "message": {"author": {"role": role, "name": None}, "content": content} | message}


def chatgpt(mapping: dict, current: object = None, **fields: Any) -> str:
    item = {"title": "Trip", "conversation_id": "c1", "create_time": 1704164640.5, "mapping": mapping, **fields}
    return json.dumps([item | ({"current_node": current} if current is not None else {})])


def claude(*messages: dict, **fields: Any) -> str:
    return json.dumps(
        [{"uuid": "k1", "name": "Plans", "account": {"uuid": "a"}, "chat_messages": list(messages)} | fields]
    )


def turns(found: Extraction) -> list[tuple[str | None, str]]:
    return [(s.speaker, d.text[s.char_start : s.char_end]) for d in found.documents for s in d.segments]


def kinds(found: Extraction) -> list[str | None]:
    return [s.stated.kind if s.stated else None for d in found.documents for s in d.segments]


HIDDEN = {"metadata": {"is_visually_hidden_from_conversation": True}}


def test_of_a_tree_the_shown_branch_is_read_and_one_of_another_kind_is_no_conversation(read) -> None:
    tree = {
        "root": {"parent": None, "message": None},
        "s": node("root", "system", ""),
        "i": node("s", "system", "You are a helpful assistant.", **HIDDEN),
        "p": node("i", "user", "", content={"content_type": "user_editable_context", "user_profile": "Likes tea"}),
        "a": node("p", "user", "Where to?", create_time=1704164645.5),
        "b": node("a", "assistant", "Discarded.", create_time=1704164646.5),
        "h": node("a", "user", "Original custom instructions no longer available", **HIDDEN),
        "t": node("h", "assistant", content={"content_type": "thoughts", "thoughts": [{"summary": "Hm"}]}),
        "r": node("t", "assistant", content={"content_type": "reasoning_recap", "content": "Thought for 5 seconds"}),
        "c": node("r", "assistant", "Lisbon.", "By train."),
    }
    found = read("conversations.json", chatgpt(tree, "c"))
    (document,) = found.documents
    assert (document.title, document.session_id, document.kind) == ("Trip", "c1", "import")
    assert turns(found) == [("user", "Where to?"), ("assistant", "Lisbon.\nBy train.")]
    assert [s.said_at.second for s in document.segments] == [5, 0], "a turn without a time has the conversation's"
    assert found.problems == ()
    assert found.left_out == {"instruction": 2, "hidden": 1, "reasoning": 2, "other_branch": 1}
    text = '{"mapping": {"properties": {"title": {"type": "text"}}}}'
    assert segment_texts(read("index.json", text).documents[0]) == [("code", None, text)]


def test_calls_of_tools_are_turns_of_tools_and_pictures_are_counted(read) -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x", "width": 10}
    made = picture | {"metadata": {"dalle": {"prompt": "a red bicycle"}}}
    spoken = {"content_type": "audio_transcription", "text": "And in winter?", "direction": "in"}
    tree = {
        "a": node(None, "user", picture, "What is this?", metadata={"attachments": [{"name": "plan.pdf"}]}),
        "b": node("a", "assistant", content={"content_type": "code", "text": "1+1"}, recipient="python"),
        "c": node("b", "tool", content={"content_type": "execution_output", "text": "2"}),
        "d": node("c", "assistant", made, "A bicycle\ue200cite\ue202turn0search1\ue201【4†source】."),
        "e": node("d", "user", {"content_type": "audio_asset_pointer"}, spoken),
        "f": node("e", "user", picture),
    }
    found = read("conversations.json", chatgpt(tree, "f"))
    assert turns(found) == [
        ("user", "[image]\nWhat is this?\n[file: plan.pdf]"), ("assistant", "python(1+1)"), ("tool", "2"),
        ("assistant", "[image: a red bicycle]\nA bicycle."), ("user", "And in winter?"),
    ]  # fmt: skip
    assert kinds(found) == [None, "tool", "tool", None, None]
    assert found.left_out == {"image": 3, "file": 1, "audio": 1} and found.problems == ()


def test_a_conversation_that_must_not_be_remembered_is_not_and_a_problem_names_conversation_and_message(read) -> None:
    found = read("a.json", chatgpt({"a": node(None, "user", "Hi.")}, "a", is_do_not_remember=True))
    assert [s.stated.memory for d in found.documents for s in d.segments] == ["off"]
    chats = [{"id": n, "messages": [{"role": "user", "content": "Hi.", "timestamp": "noon"}]} for n in "ab"]
    problems = read("a.json", json.dumps(chats)).warnings
    assert [p.split(": timestamp")[0] for p in problems] == ["conversation 1: message 1", "conversation 2: message 1"]


def test_of_claude_the_content_is_read_and_attached_texts_are_documents(read) -> None:
    notice = "Sure.\n```\nThis block is not supported on your current device yet.\n```"
    question = {
        "uuid": "m1", "text": "Read this.", "content": [{"type": "text", "text": "Read this."}], "sender": "human",
        "created_at": "2026-01-02T10:00:00.123456Z",
        "attachments": [{"file_name": "notes.md", "extracted_content": "# Boat\n\nThe mast is oak."}],
        "files": [{"file_name": "deck.png"}],
    }  # fmt: skip
    answered = {
        "uuid": "m2", "text": notice,
        "content": [
            {"type": "thinking", "thinking": "Let me see."}, {"type": "text", "text": "Sure."},
            {"type": "tool_use", "name": "web_search", "input": {"query": "oak"}},
            {"type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "Oak is hard."}]},
            {"type": "text", "text": "Oak is fine."},
        ],
        "sender": "assistant", "created_at": "2026-01-02T10:00:05Z",
    }  # fmt: skip
    empty = {"uuid": "m3", "text": "", "content": [], "sender": "human", "created_at": "2026-01-02T10:01:00Z"}
    found = read("conversations.json", claude(question, answered, empty))
    chat, attached = found.documents
    assert (chat.session_id, chat.title, chat.kind) == ("k1", "Plans", "import")
    assert [(s.speaker, t) for s, (_, _, t) in zip(chat.segments, segment_texts(chat), strict=True)] == [
        ("human", "Read this.\n[file: notes.md]\n[image: deck.png]"),
        ("assistant", "Sure.\nOak is fine."),
        ("assistant", 'web_search({"query": "oak"})'),
        ("web_search", "Oak is hard."),
    ]
    assert kinds(Extraction((chat,))) == [None, None, "tool", "tool"]
    assert (attached.uri, attached.session_id) == ("conversations.json#k1#notes.md", "k1")
    assert attached.title == "notes" and "The mast is oak." in attached.text
    assert attached.source_time == datetime(2026, 1, 2, 10, 0, 0, 123456, tzinfo=UTC)
    assert found.left_out == {"image": 1, "reasoning": 1} and found.problems == ()


def test_of_claude_the_branch_of_the_newest_message_is_read_and_what_an_attachment_states_of_its_owner_is_not(
    read,
) -> None:
    def message(name: str, parent: str, sender: str, text: str, second: int) -> dict:
        about = {"uuid": name, "parent_message_uuid": parent, "sender": sender, "text": text}
        return about | {"created_at": f"2026-01-02T10:00:{second:02}Z"}

    root = "00000000-0000-4000-8000-000000000000"
    messages = (
        message("a", root, "human", "A boat for two?", 1),
        message("b", "a", "assistant", "A dinghy.", 2),
        message("c", root, "human", "A boat for three?", 3),
        message("d", "c", "assistant", "A sloop.", 4),
    )
    found = read("a.json", claude(*messages))
    assert turns(found) == [("human", "A boat for three?"), ("assistant", "A sloop.")]
    assert found.left_out == {"other_branch": 2}
    shown = read("a.json", claude(*messages, current_leaf_message_uuid="b"))
    assert turns(shown) == [("human", "A boat for two?"), ("assistant", "A dinghy.")]
    text = "---\nuser_id: mallory\nprivacy: {user_visible: true}\n---\nThe mast is oak."
    message = {
        "sender": "human",
        "text": "Read.",
        "attachments": [{"file_name": "../../a.txt", "extracted_content": text}],
    }
    chat, attached = read("a.json", claude(message, message | {"text": "Again."})).documents
    assert (attached.user_id, attached.uri) == (chat.user_id, "a.json#k1#a.txt")


def test_messages_with_parts_and_the_items_between_them_are_turns_with_roles(read) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Porto"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Is it warm?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "text", "text": "In Porto."},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "21 degrees"},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes, 21 degrees."}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "ok"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot say."}]},
    ]
    expected = [
        ("user", "Is it warm?\n[image]\nIn Porto."), ("assistant", 'weather({"city": "Porto"})'),
        ("tool", "21 degrees"), ("assistant", "Yes, 21 degrees."), ("tool", "ok"), ("assistant", "I cannot say."),
    ]  # fmt: skip
    lines = "".join(json.dumps(m) + "\n" for m in messages)
    for name, text in (
        ("a.json", json.dumps(messages)),
        ("b.json", json.dumps({"messages": messages})),
        ("c.jsonl", json.dumps({"messages": messages}) + "\n"),
        ("d.jsonl", lines),
    ):
        found = read(name, text)
        assert turns(found) == expected and found.problems == ()
        assert kinds(found) == [None, "tool", "tool", None, "tool", None]
        assert found.left_out == {"instruction": 1, "image": 1}
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Is it warm?"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Weather."}]},
        {"type": "function_call", "name": "weather", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "21 degrees"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ]
    found = read("a.json", json.dumps(items))
    expected = [("user", "Is it warm?"), ("assistant", "weather({})"), ("tool", "21 degrees"), ("assistant", "Yes.")]
    assert turns(found) == expected and found.left_out == {"reasoning": 1}
    messages = [{"role": "developer", "speaker": "Ann", "text": "Shipped."}, {"speaker": "Bo", "text": "Thanks."}]
    assert turns(read("a.json", json.dumps(messages))) == [("Ann", "Shipped."), ("Bo", "Thanks.")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (chatgpt({"a": node("b", "user", "Hi."), "b": node("a", "assistant", "Hello.")}, "a"), "is its own ancestor"),
        (chatgpt({"a": node(None, "user", "Hi."), "b": node("a", "user", "So?")}, "x"), "current_node 'x' names no"),
        (chatgpt({"a": node(None, "user", "Hi."), "b": node("z", "user", "So?"), "c": node("b", "user", "?")}, "c"),
         "parent 'z' of message 'b' is missing"),
        (chatgpt({"a": node(None, "user", "Hi.", create_time=1e300)}, "a"), "timestamp '1e+300' is not a date"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_tree_is_one_line_and_its_turns_are_read(read, content: str, problem: str) -> None:
    found = read("a.json", content)
    assert turns(found)[0] == ("user", "Hi.") or "ancestor" in problem
    (line,) = found.problems or found.warnings
    assert problem in line and "\n" not in line


def test_exports_without_messages_and_files_about_the_account_make_no_document(read) -> None:
    for content in (claude(), chatgpt({}, "x"), chatgpt({"root": {"parent": None, "message": None}}, "root")):
        found = read("a.json", content)
        assert found.documents == () and found.problems == ()
    files = {
        "user.json": {"id": "user-1", "email": "ana@example.org", "chatgpt_plus_user": False},
        "users.json": [{"uuid": "u", "full_name": "Ana", "email_address": "ana@example.org"}],
        "message_feedback.json": [
            {"conversation_id": "c1", "rating": "thumbs_up", "content": "{}", "create_time": "x"}
        ],
        "shared_conversations.json": [{"id": "s", "conversation_id": "c1", "title": "Trip", "is_anonymous": True}],
    }
    for name, value in files.items():
        found = read(name, json.dumps(value))
        assert found.documents == () and found.problems == ()


def test_a_file_that_ends_early_or_goes_on_is_rejected(read) -> None:
    whole = chatgpt({"a": node(None, "user", "Hi.")}, "a")
    for damaged in (whole[:-1], whole[:-9], whole + "]", whole[:-1] + ",]", whole[:-1] + whole):
        with pytest.raises(Rejected, match=r"not JSON: .*; export it again"):
            read("a.json", damaged)
    with pytest.raises(Rejected, match="not JSON: item 2: Expecting value"):
        read("a.json", whole[:-1] + ",]")
    for hostile in ("[" * 100_000, chatgpt({"a": node(None, "user", "Hi.")})[:-2] + ', "x": ' + "[" * 100_000):
        with pytest.raises(Rejected, match=r"nested too deeply"):
            read("a.json", hostile)


def test_a_large_export_in_utf8_is_read_item_by_item(read) -> None:
    text = "Grüße \U0001f986 " * 60_000
    tree = {"a": node(None, "user", text), "b": node("a", "assistant", text)}
    whole = json.dumps(json.loads(chatgpt(tree, "b")) * 3, ensure_ascii=False)
    found = read("a.json", whole, max_chars=len(text) * 3)
    assert len(whole) > 3 * len(text) and [d.session_id for d in found.documents] == ["c1", "c1 (2)", "c1 (3)"]
    assert {t for _, t in turns(found)} == {text.strip()}
    with pytest.raises(Rejected, match="item 3: 'utf-8' codec can't decode"):
        read("a.json", whole.encode()[:-9] + b"\xff" + whole.encode()[-8:], max_chars=len(text) * 3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(("type", "content_type", "text", "parts", "content", "name", "input", "function", "x")),
            inner | st.sampled_from(("text", "tool_use", "tool_result", "image_url", "code", "thinking", "file")),
            max_size=4,
        )
    ),
    max_leaves=20,
)
MESSAGE = st.dictionaries(
    st.sampled_from(
        ("text", "content", "sender", "author", "role", "metadata", "attachments", "files", "tool_calls", "recipient")
    ),
    JSON | st.sampled_from(("user", "assistant", "human", "tool", "system")),
    max_size=6,
)
NAME = st.sampled_from("abcdef")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mapping=st.dictionaries(
        NAME, st.fixed_dictionaries({"parent": NAME | JSON, "message": MESSAGE | JSON}), max_size=6
    ),
    current=NAME | JSON,
    messages=st.lists(MESSAGE | JSON, max_size=4),
    as_lines=st.booleans(),
)
def test_no_export_raises_anything_but_a_rejection(read, mapping, current, messages, as_lines) -> None:
    exports = [{"mapping": mapping, "current_node": current}, {"uuid": "u", "chat_messages": messages}]
    try:
        if as_lines:
            found = read("a.jsonl", "".join(json.dumps(e) + "\n" for e in exports))
        else:
            found = read("a.json", json.dumps(exports))
    except Rejected as e:
        assert str(e)
        return
    assert all(isinstance(n, int) and n > 0 for n in found.left_out.values())
    assert all("\n" not in p for p in found.problems)
    for document in found.documents:
        assert all(t.strip() for _, _, t in segment_texts(document))
        assert json.loads(json.dumps(document.to_json(), allow_nan=False))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parents=st.lists(st.integers(0, 7), min_size=1, max_size=8), leaf=st.integers(0, 7))
def test_each_message_is_in_the_shown_branch_or_counted(read, parents: list[int], leaf: int) -> None:
    mapping = {str(i): node(str(min(p, i - 1)) if i else None, "user", f"m{i}.") for i, p in enumerate(parents)}
    at, expected = str(min(leaf, len(parents) - 1)), []
    found = read("a.json", chatgpt(mapping, at))
    while at is not None:
        expected.append(f"m{at}.")
        at = mapping[at]["parent"]
    assert [text for _, text in turns(found)] == expected[::-1] and found.problems == ()
    assert found.left_out.get("other_branch", 0) == len(parents) - len(expected)
