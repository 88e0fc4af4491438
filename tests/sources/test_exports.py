"""What people export from programs: every known shape is read as turns, every other chat is refused with a line."""

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import docx
import openpyxl
import pytest
from reportlab.pdfgen.canvas import Canvas

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction
from tests.command import run
from tests.small_corpus import write_notes

Read = Callable[..., Extraction]


def turns(found: Extraction) -> list[tuple[str | None, str, str]]:
    """Returns who says what, and when, of every turn."""
    return [
        (s.speaker, f"{s.said_at:%Y-%m-%d %H:%M}" if s.said_at else "", d.text[s.char_start : s.char_end])
        for d in found.documents
        for s in d.segments
        if s.kind == "turn"
    ]


# Chats as text: (file, text, turns, not stored).

IPHONE = (
    "\u200e[3/01/26, 6:59:01\u202fPM] Rowing: \u200eMessages and calls are end-to-end encrypted.\r\n"
    "[3/01/26, 7:00:01\u202fPM] ~\u202fAda: Who has the oars?\r\n"
    "[3/01/26, 7:01:00\u202fPM] Ben: I do.\nBoth pairs,\n\nunder the stairs.\r\n"
    "\u200e[3/01/26, 7:02:00\u202fPM] Ada: \u200eimage omitted\r\n"
    "[3/01/26, 7:02:10\u202fPM] Rowing: \u200eBen changed the group name to “Oars: 2026”\r\n"
    "[3/01/26, 7:03:00\u202fPM] Ben: \u200eThis message was deleted.\r\n"
    "[3/01/26, 7:04:00\u202fPM] Ben: \u200eMissed voice call\r\n"
    "[4/02/26, 12:05:00\u202fAM] Ben: I lent the oars to Cy \u200e<This message was edited>\r\n"
    "[15/02/26, 12:05:00\u202fPM] Ada: Plan.pdf • \u200e2 pages \u200edocument omitted\r\n"
)
ANDROID_24 = (
    "17.03.26, 21:04 - Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt. Tippe, um mehr zu erfahren.\n"
    "17.03.26, 21:04 - Jo hat die Gruppe „Chor: Alt“ erstellt\n"
    "17.03.26, 21:05 - Jo: Wir singen: in B12\n"
    "17.03.26, 21:06 - Mia: <Medien ausgeschlossen>\n"
    "17.03.26, 21:07 - Mia: Diese Nachricht wurde gelöscht.\n"
    "18.03.26, 07:00 - Mia: IMG-1.jpg (Datei angehängt)\nDas ist der Saal\n"
)
TEXT_CHATS = [
    (
        "Rowing/_chat.txt",
        IPHONE,
        [
            ("Ada", "2026-01-03 19:00", "Who has the oars?"),
            ("Ben", "2026-01-03 19:01", "I do.\nBoth pairs,\n\nunder the stairs."),
            ("Ben", "2026-02-04 00:05", "I lent the oars to Cy"),
        ],
        {"notice": 4, "image": 1, "file": 1},
    ),
    (
        "WhatsApp Chat mit Chor.txt",
        ANDROID_24,
        [("Jo", "2026-03-17 21:05", "Wir singen: in B12"), ("Mia", "2026-03-18 07:00", "Das ist der Saal")],
        {"notice": 3, "media": 1, "image": 1},
    ),
    (
        "month-first.txt",
        "1/2/26, 6:30 PM - Kofi: We meet in B12\n1/2/26, 6:31 PM - Kofi added Lo\n"
        "1/25/26, 7:05 AM - Lo: In the chapel\n",
        [("Kofi", "2026-01-02 18:30", "We meet in B12"), ("Lo", "2026-01-25 07:05", "In the chapel")],
        {"notice": 1},
    ),
    (
        "monotonic.txt",  # day first, the second would be older than the first
        "[9/8/25, 18:30:00] Kofi: One\n[10/7/25, 18:31:00] Lo: Two\n[11/6/25, 18:31:00] Lo: Three\n",
        [("Kofi", "2025-09-08 18:30", "One"), ("Lo", "2025-10-07 18:31", "Two"), ("Lo", "2025-11-06 18:31", "Three")],
        {},
    ),
    (
        "iso.txt",
        "2026-02-03 10:02 - Åsa: Båten är såld\n2026-02-04 10:02 - Per: <Media omitted>\n",
        [("Åsa", "2026-02-03 10:02", "Båten är såld")],
        {"media": 1},
    ),
    (
        "spanish.txt",
        "14/10/25 9:04 p. m. - Ana: Hola\n14/10/25 9:05 p. m. - Leo: null\n",
        [("Ana", "2025-10-14 21:04", "Hola")],
        {"notice": 1},
    ),
    (
        "line.txt",
        "[LINE] Chat history with Yui\nSaved on: 2026/01/05 10:00\n\n2026/01/03(Sat)\n10:02\tYui\tI have the map\n"
        '10:03\tKen\t[Sticker]\n10:05\tKen joined the group\n\n2026/01/04(Sun)\n9:02 PM\tKen\t"Lost it\nyesterday"\n',
        [("Yui", "2026-01-03 10:02", "I have the map"), ("Ken", "2026-01-04 21:02", "Lost it\nyesterday")],
        {"media": 1, "notice": 1},
    ),
    (
        "imessage.txt",
        "May 17, 2024  5:29:42 PM\n+15558675309\nI have the boat.\nIt is red\n\n"
        "May 17, 2024  5:30:10 PM (Read by them after 5 seconds)\nMe\n/Users/x/IMG_1.jpeg\n\n",
        [("+15558675309", "2024-05-17 17:29", "I have the boat.\nIt is red")],
        {"media": 1},
    ),
]


@pytest.mark.parametrize(("name", "text", "said", "left_out"), TEXT_CHATS, ids=[c[0] for c in TEXT_CHATS])
def test_a_chat_exported_as_text_is_turns(read: Read, name: str, text: str, said: list, left_out: dict) -> None:
    found = read(name, text)
    assert turns(found) == said
    assert (dict(found.left_out), found.problems, found.warnings) == (left_out, (), ())


def test_a_chat_has_the_name_of_its_file_or_folder(read: Read) -> None:
    assert [read(*c[:2]).documents[0].title for c in TEXT_CHATS[:2]] == ["Rowing", "Chor"]


def test_dates_that_nothing_decides_are_day_first_and_this_is_said(read: Read) -> None:
    found = read("c.txt", "3/4/26, 18:30 - Kofi: One\n3/4/26, 18:31 - Lo: Two\n")
    assert turns(found)[0][1] == "2026-04-03 18:30"
    (warning,) = found.warnings
    assert "read as day_first" in warning and found.problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "14/10/2025, 9:04 - meeting\n\nWe met. Ana: said hi.\n",
        "\n".join(f"2026-01-03 10:0{i} - Job {i}: done" for i in range(9)),
        "[2026-01-03, 10:00:00] INFO: started\n[2026-01-03, 10:00:01] ERROR: stopped\n",
        "A note.\n\nAnother one, of 14/10/2025.\n",
    ],
)
def test_notes_and_logs_are_no_chat(read: Read, text: str) -> None:
    assert read("a.txt", text).documents[0].media_type == "text/plain"


# Exports as JSON and CSV: (file, value, files beside it, turns, not stored).


def _message(at: int, text: Any, **more: Any) -> dict:
    who = {"from": "Omar", "from_id": "user1", "date": f"2026-01-02T1{at}:00:00", "date_unixtime": f"{1767348000 + at}"}
    return {"id": at, "type": "message", "text": text, **who, **more}


def _node(parent: str | None, role: str, content: str, at: int, **more: Any) -> dict:
    return {"parentId": parent, "role": role, "content": content, "timestamp": 1767272160 + 60 * at, **more}


TELEGRAM = {
    "name": "Family",
    "type": "private_group",
    "id": 5,
    "messages": [
        {"id": 9, "type": "service", "date": "2026-01-01T10:00:00", "actor": "Omar", "action": "pin", "text": ""},
        {**_message(1, ["Moved to ", {"type": "bold", "text": "May"}]), "date_unixtime": "1767348000"},
        _message(2, "", media_type="sticker", file="s.webp"),
        _message(3, "", photo="p.jpg"),
        _message(4, "", poll={}),
        _message(5, ""),
    ],
}
OPEN_WEBUI = {
    "id": "c-9",
    "user_id": "u-1",
    "title": "Boat",
    "created_at": 1767272160,
    "chat": {
        "history": {
            "currentId": "c",
            "messages": {
                "a": _node(None, "user", "My boat is red.", 0),
                "b": _node("a", "assistant", "Other answer.", 1, model="m"),
                "c": _node(
                    "a", "assistant", '<details type="reasoning" done="true">\nhm</details>\nNice.', 2, model="m"
                ),
            },
        }
    },
}
GRAPH = [
    {
        "messageType": "message",
        "createdDateTime": f"2026-01-02T10:0{n}:00Z",
        "chatId": "19:a",
        "from": {"user": {"displayName": who}},
        "body": {"contentType": "html", "content": words},
    }
    for n, who, words in ((1, "Bo", "<p>It <b>moved</b> to 10.</p><p>A &amp; B</p>"), (0, "Al", "<p>When is it?</p>"))
] + [{"messageType": "systemEventMessage", "createdDateTime": "2026-01-02T10:00:00Z", "chatId": "19:a", "body": {}}]
SIGNAL_LINES = [
    {
        "envelope": {
            "sourceNumber": "+49",
            "sourceName": "Ana",
            "dataMessage": {"timestamp": 1767348000000, "message": "At 8"},
        }
    },
    {"envelope": {"sourceNumber": "+49", "sourceName": "Ana", "receiptMessage": {}}},
]
SIGNAL_FRAMES = [
    {"recipient": {"id": "2", "contact": {"profileGivenName": "Ana"}}},
    {"chat": {"id": "4", "recipientId": "2"}},
    {
        "chatItem": {
            "chatId": "4",
            "authorId": "2",
            "dateSent": "1767348000000",
            "standardMessage": {"text": {"body": "At 8"}},
        }
    },
    {"chatItem": {"chatId": "4", "authorId": "2", "dateSent": "1767348000001", "updateMessage": {}}},
]
GOOGLE = {
    "messages": [
        {
            "creator": {"name": "Ana"},
            "created_date": "Tuesday, March 3, 2026 at 9:15:00\u202fPM UTC",
            "text": "In the pot.",
        },
        {
            "creator": {"name": "Ana"},
            "created_date": "Tuesday, March 3, 2026 at 9:16:00\u202fPM UTC",
            "message_state": "DELETED",
        },
    ]
}
DISCORD = [
    {"ID": 2, "Timestamp": "2026-02-20 07:09:04", "Contents": "sold the bike", "Attachments": ""},
    {"ID": 1, "Timestamp": "2026-02-19 07:09:04", "Contents": "have a bike", "Attachments": "https://x/y.png"},
]
DISCORD_CSV = (
    'ID,Timestamp,Contents,Attachments\n2,2026-02-20 07:09:04.1+00:00,"sold, gone",\n1,2026-02-19 07:09:04.1+00:00,,a\n'
)
EXPORTER = {
    "guild": {"id": "1", "name": "G"},
    "channel": {"id": "5", "name": "general"},
    "messages": [
        {
            "type": "Default",
            "timestamp": "2026-01-02T10:00:00Z",
            "content": "Tea",
            "author": {"id": "9", "name": "k1", "nickname": "Kofi"},
        },
        {
            "type": "GuildMemberJoin",
            "timestamp": "2026-01-02T10:00:00Z",
            "content": "Joined.",
            "author": {"id": "9", "name": "k1"},
        },
    ],
}
META = {
    "participants": [{"name": "Zo\u00c3\u00ab"}],
    "title": "Zo\u00c3\u00ab",
    "thread_path": "inbox/zoe_1",
    "messages": [
        {"sender_name": "Zo\u00c3\u00ab", "timestamp_ms": 1767348060000, "content": "Later"},
        {"sender_name": "Al", "timestamp_ms": 1767348000000, "content": "First"},
        {"sender_name": "Al", "timestamp_ms": 1767347000000, "photos": [{"uri": "x"}]},
    ],
}
TEAMS = {
    "conversations": [
        {
            "id": "19:q",
            "displayName": "Crew",
            "MessageList": [
                {
                    "displayName": "Al",
                    "originalarrivaltime": "2026-01-02T10:00:00Z",
                    "messagetype": "RichText",
                    "content": "In <b>Porto</b>",
                },
                {
                    "originalarrivaltime": "2026-01-02T09:00:00Z",
                    "messagetype": "ThreadActivity/AddMember",
                    "content": "<a/>",
                },
            ],
        }
    ]
}
GEMINI = [
    {
        "header": "Gemini Apps",
        "title": "Prompted where is Bonn",
        "time": "2026-01-03T10:00:00Z",
        "safeHtmlItem": [{"html": "<p>On the Rhine.</p>"}],
    },
]
GROK = {
    "conversations": [
        {
            "conversation": {"id": "g", "title": "Boat"},
            "responses": [
                {
                    "response": {
                        "message": "It is blue",
                        "sender": "human",
                        "create_time": {"$date": {"$numberLong": "1767348000000"}},
                    }
                }
            ],
        }
    ]
}
AT = "2026-01-02 10:00"
JSON_CHATS: list[tuple[str, Any, dict[str, Any], str | None, list, dict]] = [
    (
        "result.json",
        TELEGRAM,
        {},
        "5",
        [("Omar", "2026-01-02 11:00", "Moved to May")],
        {"notice": 1, "sticker": 1, "image": 1, "other": 1, "empty": 1},
    ),
    (
        "full.json",
        {
            "contacts": {"list": [{"first_name": "A", "date": "x"}]},
            "chats": {"about": "", "list": [TELEGRAM, {"type": "saved_messages", "id": 3, "messages": []}]},
        },
        {},
        "5",
        [("Omar", "2026-01-02 11:00", "Moved to May")],
        {"notice": 1, "sticker": 1, "image": 1, "other": 1, "empty": 1},
    ),
    (
        "webui.json",
        [OPEN_WEBUI],
        {},
        "c-9",
        [("user", "2026-01-01 12:56", "My boat is red."), ("assistant", "2026-01-01 12:58", "Nice.")],
        {"reasoning": 1, "other_branch": 1},
    ),
    (
        "c7/messages.json",
        DISCORD,
        {"c7/channel.json": {"id": "7", "type": 0, "name": "bikes", "guild": {"name": "Club"}}},
        "7",
        [("user", "2026-02-19 07:09", "have a bike"), ("user", "2026-02-20 07:09", "sold the bike")],
        {"file": 1},
    ),
    ("c7/messages.csv", DISCORD_CSV, {}, None, [("user", "2026-02-20 07:09", "sold, gone")], {"file": 1}),
    ("exporter.json", EXPORTER, {}, "5", [("Kofi", AT, "Tea")], {"notice": 1}),
    ("message_1.json", META, {}, "zoe_1", [("Al", AT, "First"), ("Zoë", "2026-01-02 10:01", "Later")], {"image": 1}),
    (
        "graph.json",
        {"value": GRAPH},
        {},
        "19:a",
        [("Al", AT, "When is it?"), ("Bo", "2026-01-02 10:01", "It moved to 10.\nA & B")],
        {"notice": 1},
    ),
    ("teams.json", TEAMS, {}, "19:q", [("Al", AT, "In Porto")], {"notice": 1}),
    (
        "c9/messages.json",
        GOOGLE,
        {"c9/group_info.json": {"name": "Garden", "members": []}},
        None,
        [("Ana", "2026-03-03 21:15", "In the pot.")],
        {"notice": 1},
    ),
    ("cli.jsonl", SIGNAL_LINES, {}, "+49", [("Ana", AT, "At 8")], {"notice": 1}),
    ("main.jsonl", SIGNAL_FRAMES, {}, "4", [("Ana", AT, "At 8")], {"notice": 1}),
    (
        "desktop.json",
        [
            {"conversationId": "c", "type": "incoming", "sent_at": 1767348000000, "body": "At 8", "profileName": "Ana"},
            {"conversationId": "c", "type": "keychange", "sent_at": 1767348000000},
        ],
        {},
        "c",
        [("Ana", AT, "At 8")],
        {"notice": 1},
    ),
    (
        "MyActivity.json",
        GEMINI,
        {},
        None,
        [("user", "2026-01-03 10:00", "where is Bonn"), ("assistant", "2026-01-03 10:00", "On the Rhine.")],
        {},
    ),
    ("grok.json", GROK, {}, "g", [("user", AT, "It is blue")], {}),
]


@pytest.mark.parametrize(
    ("name", "value", "beside", "session", "said", "left_out"), JSON_CHATS, ids=[c[0] for c in JSON_CHATS]
)
def test_an_export_of_a_chat_program_is_turns(
    read: Read, tmp_path, name: str, value: Any, beside: dict, session: str | None, said: list, left_out: dict
) -> None:
    for other, content in beside.items():
        side = read(other, json.dumps(content))
        assert (side.documents, side.problems) == ((), ())
    if name.endswith(".jsonl"):
        value = "\n".join(map(json.dumps, value))
    found = read(name, value if isinstance(value, str) else json.dumps(value))
    assert turns(found) == said
    assert {d.session_id for d in found.documents} == {session}
    assert (dict(found.left_out), found.problems) == (left_out, ())


def test_names_and_models_of_an_export(read: Read) -> None:
    (document,) = read("webui.json", json.dumps([OPEN_WEBUI])).documents
    assert (document.title, document.metadata["models"], document.user_id) == ("Boat", ["m"], None)
    found = read("all.json", json.dumps([OPEN_WEBUI, {**OPEN_WEBUI, "id": "c-10", "user_id": "u-2"}])).documents
    assert [d.user_id for d in found] == ["u-1", "u-2"]  # of all accounts of a server: each has its own


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ([{"sender_id": 7, "msg_body": "The boat is blue", "sent_ts": 1767348000}], "sender_id, msg_body, sent_ts"),
        ([{"who": "al", "said": "I moved to Bonn", "at": 1767348000}], "who, said, at"),
        (
            {"room": "x", "log": [{"nick": "al", "when": "2026-01-02", "utterance": "The boat is blue"}]},
            "nick, when, utterance",
        ),
        (
            {
                "a1": {"posted_by": "al", "msg_text": "x", "Body": {"plain_text": "A boat."}},
                "a2": {"posted_by": "bo", "Body": {"plain_text": "A car."}},
            },
            "posted_by, Body",
        ),
        (
            {"messages": [{"versions": [{"role": "user", "content": [{"type": "text", "text": "I live in Bonn"}]}]}]},
            "role, content",
        ),
    ],
)
def test_a_chat_of_no_known_shape_is_refused_with_its_keys(read: Read, value: Any, keys: str) -> None:
    with pytest.raises(Rejected, match=r"looks like a chat.*\.jsonl") as refused:
        read("a.json", json.dumps(value))
    assert all(key in str(refused.value) for key in keys.split(", ")) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        {"products": [{"name": "kettle", "price": 3, "description": "A kettle of steel", "created": "2026-01-01"}]},
        [{"id": 1, "title": "A walk", "date": "2026-01-01", "amount": 4}],
        {"messages": {"hello": "Hello to you", "bye": "Good bye"}, "from": "From the start"},
        {"title": "Post", "author": "Ana", "content": "One text of one author."},
        [1, 2, ["a b", "c d"]],
        [{"level": "info", "msg": "server started", "time": "2026-01-01T00:00:00Z"}],
        [{"context": "A sentence of text.", "date": "2026-01-01"}],
    ],
)
def test_plain_data_is_kept_as_it_is(read: Read, value: Any) -> None:
    (document,) = read("data.json", json.dumps(value)).documents
    assert document.media_type == "application/json"


@pytest.mark.parametrize(
    ("page", "program"),
    [
        ('<div class="page_wrap"><div class="message default clearfix" id="m1">Hi</div></div>', "Telegram"),
        ('<div class="chatlog__message-group"><div class="chatlog__message">Hi</div></div>', "Discord"),
    ],
)
def test_a_chat_as_a_page_is_refused(read: Read, page: str, program: str) -> None:
    with pytest.raises(Rejected, match=f"a chat of {program} as a page: export it again as JSON"):
        read("messages.html", f"<html><body>{page}</body></html>")


# Times that cannot be used.


def test_a_turn_without_a_usable_time_is_not_before_the_turn_it_follows(read: Read) -> None:
    stamps = [1767225600, "2026-01-03T10:00:00Z", "4/1/2026", None, "2026-01-09", "later"]
    rows = [{"session_id": "s", "speaker": "A", "text": f"Turn {n}.", "timestamp": t} for n, t in enumerate(stamps)]
    found = read("a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [at[:10] for _, at, _ in turns(found)] == ["2026-01-01", *["2026-01-03"] * 3, *["2026-01-09"] * 2]
    assert found.problems == () and [w.split(":")[0] for w in found.warnings] == ["line 3", "line 6"]
    assert "dated as the turn before it, 2026-01-03" in found.warnings[0]


def test_one_day_above_twelve_decides_the_dates_of_a_file(read: Read) -> None:
    rows = [{"session_id": "s", "speaker": "A", "text": "x.", "timestamp": t} for t in ("3/4/2026", "25/4/2026")]
    found = read("a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [at[:10] for _, at, _ in turns(found)] == ["2026-04-03", "2026-04-25"] and found.warnings == ()


# Mailboxes.

MAILBOX = """From ivo@example.org Mon Mar  9 18:02:00 2026
From: Ivo Lang <ivo@example.org>
Subject: The tent
Message-ID: <a@x>
Date: Mon, 9 Mar 2026 18:02:00 +0100
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

The tent is in the shed.

From the garden you see it.
>From there, too.
--b
Content-Type: image/jpeg; name=x.jpg
Content-Disposition: attachment; filename=x.jpg
Content-Transfer-Encoding: base64

/9j/4AAQ
--b--

From dana@example.org Tue Mar 10 18:02:00 2026
From: Dana <dana@example.org>
Subject: Re: The tent
References: <a@x>
Message-ID: <b@x>
Date: Tue, 10 Mar 2026 18:02:00 +0100

We sold it.

On Mon, 9 Mar 2026 at 18:02, Ivo Lang <ivo@example.org> wrote:
> The tent is in the shed.

From eve@example.org Wed Mar 11 18:02:00 2026
From: Eve <eve@example.org>
Subject: AW: the tent
Date: Wed, 11 Mar 2026 18:02:00 +0100

A pity.
"""


@pytest.mark.parametrize("name", ["box.mbox", "Inbox", "mail.txt"])
def test_the_mails_of_a_mailbox_are_read_as_by_themselves(read: Read, name: str) -> None:
    found = read(name, MAILBOX)
    own = [d for d in found.documents if "quoted_in" not in d.metadata]
    assert [d.uri for d in own] == [f"{name}#a@x", f"{name}#b@x", f"{name}#mail-3"]
    assert [d.source_time for d in own] == [datetime(2026, 3, day, 17, 2, tzinfo=UTC) for day in (9, 10, 11)]
    assert {d.session_id for d in own} == {"a@x"}
    assert {s.speaker for d in own for s in d.segments if s.kind == "prose"} == {"Ivo Lang", "Dana", "Eve"}
    assert "From the garden you see it.\nFrom there, too." in own[0].text and "shed" not in own[1].text
    assert (found.problems, dict(found.left_out)) == ((), {"image": 1})


def test_what_is_no_mailbox_is_refused(read: Read) -> None:
    with pytest.raises(Rejected, match="no mailbox"):
        read("a.mbox", "From here on it is dry.\n\nNo header.\n")


# Pages.

MENU = "".join(f'<li><a href="/{n}">Page number {n}</a></li>' for n in range(12))
BANNERS = [
    f'<nav class="top"><ul>{MENU}</ul></nav>',
    '<div class="cookie-bar">This site uses cookies to improve your visit. <button>Accept all</button></div>',
    "<div><p>Wir verwenden Cookies.</p><button>Akzeptieren</button></div>",
    '<div role="dialog"><p>Win a voucher of the museum shop now!</p></div>',
    '<a href="#main">Skip to main content</a>',
    '<header><a href="/"><img alt="">Coast Museum</a> Open daily</header>',
    "<footer><p>© Coast Museum. All rights reserved.</p><p>Newsletter: subscribe now</p></footer>",
    "<form><label>Your e-mail</label><input type=email><button>Subscribe to our newsletter</button></form>",
    "<div><p>Copyright 2026 Coast Museum</p></div>",
]
FACTS = "<h1>Amber room</h1><p>The largest piece of amber weighs 4.2 kilograms.</p>"


@pytest.mark.parametrize(
    "wrap", ["<main>{}</main>", "<article>{}</article>", '<div role="main">{}</div>', "<div>{}</div>"]
)
def test_a_page_is_only_its_content(read: Read, wrap: str) -> None:
    half = len(BANNERS) // 2
    page = "".join((*BANNERS[:half], wrap.format(FACTS), *BANNERS[half:]))
    (document,) = read("a.html", f"<html><body>{page}</body></html>").documents
    assert document.text == "Amber room\n\nThe largest piece of amber weighs 4.2 kilograms."


def test_a_page_about_cookies_keeps_its_text(read: Read) -> None:
    text = "We use cookies of oat in the cafe, and you may accept one. Copyright law protects the recipe."
    page = f"<main><h1>Cookies</h1><p>{text}</p><h2><button>Are they good?</button></h2><p>They are.</p></main>"
    assert (
        read("a.html", f"<body>{page}</body>").documents[0].text == f"Cookies\n\n{text}\n\nAre they good?\n\nThey are."
    )


# A whole build.


def test_a_build_of_real_exports_exits_0_and_serves_the_newer_message(tmp_path) -> None:
    chat = (
        "3/01/26, 19:01 - Ben: I have the oars.\n14/02/26, 12:05 - Ben: <Media omitted>\n"
        "14/02/26, 12:06 - Ben: I sold the oars.\n"
    )
    rows = [{"session_id": "s", "speaker": "A", "text": "The kayak is red.", "timestamp": "4/1/2026"}]
    corpus = write_notes(
        tmp_path, {"chat.txt": chat, "result.json": json.dumps(TELEGRAM), "a.jsonl": json.dumps(rows[0])}
    )
    home = tmp_path / "home"
    built = run("build", "--corpus", corpus, "--home", home)
    assert built.returncode == 0, built.stderr
    assert "warning: notes/a.jsonl: line 1: timestamp '4/1/2026' may be two days" in built.stderr
    assert "1 omitted media" in built.stdout


# Long tables and columns.


def _table_files() -> dict[str, bytes]:
    rows = [(f"Item number {n}", str(3 * n), f"Hall {n % 5}, shelf on the left") for n in range(60)]
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    header = ("Item", "Count", "Place")
    names = "".join(f"<th>{name}</th>" for name in header)
    word, book = docx.Document(), openpyxl.Workbook()
    table = word.add_table(rows=0, cols=3)
    for row in (header, *rows):
        book.active.append(row)
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    files = {"a.docx": io.BytesIO(), "a.xlsx": io.BytesIO()}
    word.save(files["a.docx"])
    book.save(files["a.xlsx"])
    lines = "\n".join(";".join(row) for row in (header, *rows))
    page = f"<body><table><tr>{names}</tr>{cells}</table></body>"
    return {name: data.getvalue() for name, data in files.items()} | {"a.csv": lines.encode(), "a.html": page.encode()}


def test_each_part_of_a_long_table_has_its_header(read: Read) -> None:
    for name, data in _table_files().items():
        (document,) = read(name, data).documents
        parts = [document.text[s.char_start : s.char_end] for s in document.segments if s.kind == "table"]
        assert len(parts) > 1 and all(p.startswith("| Item | Count | Place |\n") for p in parts), name


@pytest.mark.parametrize("lines", [4, 7])
def test_two_columns_of_a_pdf_are_read_one_after_the_other(read: Read, lines: int) -> None:
    left = (
        "The harbour board met in March and|agreed that the old crane is to be|replaced by a new one from Gdansk"
        "|before the winter. The cost is about|two million and is shared between|the city and the port. The crane|lifts"
    )
    right = (
        "The ferry to the island has a new|timetable since the first of May. It|leaves at six and at nine, and on"
        "|sundays only at ten. Dogs travel for|free, bicycles cost three euros each|way. Tickets are sold on|board"
    )
    pairs = list(zip(left.split("|"), right.split("|"), strict=True))
    out = io.BytesIO()
    canvas = Canvas(out, invariant=True)
    for n, pair in enumerate(pairs[:lines]):
        for x, text in zip((72, 320), pair, strict=True):
            canvas.drawString(x, 760 - 14 * n, text)
    canvas.save()
    text = read("a.pdf", out.getvalue()).documents[0].text
    assert text.index("Gdansk") < text.index("The ferry") and "|" not in text
