"""Exports of chat programs in JSON that are no tree of ChatGPT or Claude: one function for each program."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, timedelta, timezone

from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.readers.chat_exports import ID_FIELDS, Conversation, Node, find_branch, find_name
from palimpsest.sources.readers.chat_turns import count_messages, find_time, parse_parts, parse_turns
from palimpsest.sources.readers.encodings import parse_name
from palimpsest.text.dates import parse_stated_time

Parse = Callable[[JsonObject], Conversation]


class _Turns:
    """The turns of a conversation, and what of it is not stored, by kind."""

    def __init__(self) -> None:
        self.rows: list[JsonObject] = []
        self.left_out: Counter[str] = Counter()

    def add(self, speaker: JsonValue, time: JsonValue, text: JsonValue, *, files: int | Counter[str] = 0) -> None:
        """Adds a message; one without words is counted by what it has instead."""
        others = Counter({"file": files}) if isinstance(files, int) else files
        self.left_out.update({kind: n for kind, n in others.items() if n})
        words = text.strip() if isinstance(text, str) else ""
        if words:
            self.rows.append({"speaker": parse_name(speaker), "timestamp": time, "text": words})
        elif not others.total():
            self.left_out["empty"] += 1

    def conversation(
        self, session_id: str | None = None, title: str | None = None, *, is_sorted: bool = True
    ) -> Conversation:
        """Returns the conversation; `is_sorted` false means that the file has the newest message first, perhaps."""
        times = [parse_stated_time(row["timestamp"]) for row in self.rows]
        if not is_sorted and all(times):
            pairs = [(t, row) for t, row in zip(times, self.rows, strict=True) if t]
            if pairs and pairs[0][0] > pairs[-1][0]:
                pairs.reverse()
            self.rows = [row for _, row in sorted(pairs, key=lambda pair: pair[0])]
        return Conversation(self.rows, session_id, title=title, left_out=self.left_out)


def _rows(value: JsonValue) -> list[JsonObject]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _first(rows: Sequence[JsonObject]) -> JsonObject:
    return rows[0] if rows else {}


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list_length(item: Mapping[str, JsonValue], *names: str) -> int:
    return sum(len(found) for name in names if isinstance(found := item.get(name), list))


# Open WebUI: {"title", "chat": {"history": {"messages": {id: message}, "currentId"}, "messages": [...]}}.

_DETAILS = re.compile(r"<details\b[^<>]{0,200}?\btype=\"(reasoning|tool_calls|code_interpreter)\"")
_DETAILS_END = "</details>"


def _is_open_webui(item: JsonObject) -> bool:
    chat = _object(item.get("chat")) or item
    history = _object(chat.get("history"))
    if isinstance(messages := history.get("messages"), dict):
        return any(isinstance(m, dict) and "role" in m for m in messages.values()) or "currentId" in history
    return chat is not item and any(m.keys() >= {"role", "content"} for m in _rows(chat.get("messages")))


def _parse_open_webui(item: JsonObject) -> Conversation:
    chat = _object(item.get("chat")) or item
    history = _object(chat.get("history"))
    messages = history.get("messages")
    others: list[JsonObject] = []
    problems: list[str] = []
    if isinstance(messages, dict) and messages:
        nodes = {
            name: Node(m, m.get("parentId"), m.get("timestamp")) for name, m in messages.items() if isinstance(m, dict)
        }
        branch = find_branch(nodes, history.get("currentId"), "currentId")
        found, others, problems = branch.messages, branch.others, branch.problems
    else:
        found = _rows(chat.get("messages"))
    hidden: Counter[str] = Counter()
    parsed = parse_turns([_without_details(m, hidden) for m in found], find_time(item), keep_empty=False)
    hidden.update(parsed.left_out)
    hidden["other_branch"] += count_messages(others)
    models = sorted({m for row in found if row.get("role") == "assistant" and (m := parse_name(row.get("model")))})
    return Conversation(
        parsed.rows,
        find_name(item, ID_FIELDS),
        title=find_name(item, ("title",)) or find_name(chat, ("title",)),
        notes=tuple(problems),
        attachments=tuple(parsed.attachments),
        left_out=Counter({kind: n for kind, n in hidden.items() if n}),
        metadata={"models": models} if models else {},
        owner=parse_name(item.get("user_id")),
    )


def _without_details(message: JsonObject, hidden: Counter[str]) -> JsonObject:
    """Returns a message without the blocks in which the program shows reasoning and calls of tools."""
    content = message.get("content")
    kept: JsonObject = {k: message[k] for k in ("role", "timestamp") if k in message}
    for file in _rows(message.get("files")):
        hidden["image" if file.get("type") == "image" else "file"] += 1
    if not isinstance(content, str) or "<details" not in content:
        return {**kept, "content": content}
    parts, at = [], 0
    for found in _DETAILS.finditer(content):
        end = content.find(_DETAILS_END, found.end())
        if found.start() < at or end < 0:
            continue
        parts.append(content[at : found.start()])
        hidden["reasoning" if found[1] == "reasoning" else "tool"] += 1
        at = end + len(_DETAILS_END)
    return {**kept, "content": "".join((*parts, content[at:])).strip()}


# Telegram Desktop: {"name", "type", "id", "messages"}, alone or in the list of an account.

_TELEGRAM_MEDIA = {"sticker": "sticker", "animation": "image", "video_file": "audio", "video_message": "audio"}
_TELEGRAM_MEDIA |= {"voice_message": "audio", "audio_file": "audio"}


_TELEGRAM_CHATS = (
    "personal_chat",
    "bot_chat",
    "saved_messages",
    "private_group",
    "private_supergroup",
    "public_supergroup",
    "private_channel",
    "public_channel",
)


def _is_telegram(item: JsonObject) -> bool:
    messages = item.get("messages")
    if isinstance(messages, list) and "id" in item and item.get("type") in _TELEGRAM_CHATS:
        return True
    return any(
        m.get("type") in ("message", "service")
        and "date" in m
        and bool(m.keys() & {"from_id", "actor", "date_unixtime"})
        for m in _rows(messages)[:50]
    )


def _parse_telegram(item: JsonObject) -> Conversation:
    turns = _Turns()
    for message in _rows(item.get("messages")):
        if message.get("type") != "message":
            turns.left_out["notice"] += 1
            continue
        media = Counter({kind: 1 for kind in (_telegram_media(message),) if kind})
        speaker = parse_name(message.get("from")) or parse_name(message.get("from_id"))
        turns.add(speaker, _telegram_time(message), parse_parts({"text": message.get("text")}).text, files=media)
    return turns.conversation(find_name(item, ID_FIELDS), find_name(item, ("name",)))


def _telegram_media(message: JsonObject) -> str:
    if kind := _TELEGRAM_MEDIA.get(str(message.get("media_type"))):
        return kind
    if "photo" in message:
        return "image"
    if "file" in message:
        return "file"
    known = ("poll", "location_information", "contact_information", "game_title", "invoice_information", "dice")
    return "other" if message.keys() & {*known} else ""


def _telegram_time(message: JsonObject) -> JsonValue:
    """Returns the instant of a message on the clock of the computer that exported it."""
    local = parse_stated_time(message.get("date"))
    stamp = message.get("date_unixtime")
    instant = parse_stated_time(int(stamp)) if isinstance(stamp, str) and stamp.isdecimal() else None
    if local is None or instant is None:
        return message.get("date")
    offset = local.replace(tzinfo=UTC) - instant
    if abs(offset) > timedelta(hours=15) or offset % timedelta(minutes=15):
        return instant.isoformat()
    return instant.astimezone(timezone(offset)).isoformat()


# Discord: the data package that Discord sends, and what DiscordChatExporter writes.

_DISCORD_ROW = {"ID", "Timestamp", "Contents"}
_DISCORD_EMOJI = re.compile(r"<a?(:\w{1,64}:)\d{10,25}>")
_DISCORD_NOTICES = frozenset(
    (
        "RecipientAdd",
        "RecipientRemove",
        "Call",
        "ChannelNameChange",
        "ChannelIconChange",
        "ChannelPinnedMessage",
        "GuildMemberJoin",
        "UserPremiumGuildSubscription",
        "ThreadCreated",
        "PollResult",
    )
)


def _are_discord_rows(rows: Sequence[JsonObject]) -> bool:
    return _first(rows).keys() >= _DISCORD_ROW


def parse_discord_rows(rows: Iterable[JsonObject], names: Mapping[str, str] | None = None) -> Conversation:
    """Returns the messages that their owner wrote in one channel.

    Args:
        rows: of a data package's messages, in JSON or CSV.
        names: of what is beside it: of the `channel`, and of the `owner` of the package.
    """
    names = names or {}
    turns = _Turns()
    for row in rows:
        files = len(str(row.get("Attachments") or "").split())
        turns.add(names.get("owner") or "user", row.get("Timestamp"), _discord_text(row.get("Contents")), files=files)
    for turn in turns.rows:
        turn["role"] = "user"
    return turns.conversation(names.get("id"), names.get("channel"), is_sorted=False)


def parse_table_chat(rows: Sequence[Sequence[str]], names: Mapping[str, str] | None = None) -> Conversation | None:
    """Returns the messages of a CSV table of Discord's data package or of DiscordChatExporter; None for others."""
    header = [cell.strip() for cell in rows[0]]
    items: Iterator[JsonObject] = (dict(zip(header, row, strict=False)) for row in rows[1:])
    if set(header) >= _DISCORD_ROW:
        return parse_discord_rows(items, names)
    if not {"AuthorID", "Author", "Date", "Content"} <= set(header):
        return None
    turns = _Turns()
    for item in items:
        files = Counter({"file": len(str(item.get("Attachments") or "").split(","))}) if item.get("Attachments") else 0
        turns.add(item.get("Author"), item.get("Date"), _discord_text(item.get("Content")), files=files)
    return turns.conversation()


def _is_discord_exporter(item: JsonObject) -> bool:
    author = _object(_first(_rows(item.get("messages"))).get("author"))
    return {"guild", "channel", "messages"} <= item.keys() and ("nickname" in author or "id" in author)


def _parse_discord_exporter(item: JsonObject) -> Conversation:
    turns = _Turns()
    for message in _rows(item.get("messages")):
        if message.get("type") in _DISCORD_NOTICES:
            turns.left_out["notice"] += 1
            continue
        author = _object(message.get("author"))
        others = Counter({"file": _list_length(message, "attachments"), "sticker": _list_length(message, "stickers")})
        speaker = author.get("nickname") or author.get("name")
        turns.add(speaker, message.get("timestamp"), _discord_text(message.get("content")), files=others)
    channel = _object(item.get("channel"))
    return turns.conversation(find_name(channel, ("id",)), find_name(channel, ("name",)))


def _discord_text(text: JsonValue) -> str:
    return _DISCORD_EMOJI.sub(r"\1", text) if isinstance(text, str) else ""


# Meta: Messenger and Instagram, {"participants", "messages": [{"sender_name", "timestamp_ms", "content"}], "title"}.

_META_FILES = {"photos": "image", "gifs": "image", "videos": "audio", "audio_files": "audio", "files": "file"}
_META_NOTICE = re.compile(
    r"(?:liked a message|reacted .{1,8} to your message|you (?:sent an attachment|missed a (?:video )?call).*"
    r"|.{1,80} (?:sent an attachment|missed your (?:video )?call|named the group .*|left the group"
    r"|added .{1,80} to the group|changed the (?:theme|group photo|chat theme).*|set the (?:nickname|emoji) .*))\.?",
    re.IGNORECASE,
)


def _is_meta(item: JsonObject) -> bool:
    return "participants" in item and any(
        m.keys() >= {"sender_name", "timestamp_ms"} for m in _rows(item.get("messages"))
    )


def _parse_meta(item: JsonObject) -> Conversation:
    turns = _Turns()
    for message in _rows(item.get("messages")):
        text = _repair_meta(message.get("content"))
        others = Counter({"sticker": int("sticker" in message)})
        for name, kind in _META_FILES.items():
            others[kind] += _list_length(message, name)
        if message.get("is_unsent") or _META_NOTICE.fullmatch(text):
            turns.left_out["notice"] += 1
        else:
            turns.add(_repair_meta(message.get("sender_name")), message.get("timestamp_ms"), text, files=others)
    path = _repair_meta(item.get("thread_path")).rpartition("/")[2]
    return turns.conversation(parse_name(path), parse_name(_repair_meta(item.get("title"))), is_sorted=False)


def _repair_meta(value: JsonValue) -> str:
    """Returns a text whose bytes in UTF-8 Meta wrote as characters."""
    text = value if isinstance(value, str) else ""
    try:
        return text.encode("latin-1").decode("utf-8")
    except ValueError:
        return text


# Google Chat (Takeout): {"messages": [{"creator": {"name", "email"}, "created_date", "text", "topic_id"}]}.

_GOOGLE_DATE = re.compile(r"^\s*[^\W\d_]+,\s*(.+?)\s+(?:at|um|à|a las)\s+(.+)$")


def _is_google_chat(item: JsonObject) -> bool:
    return any("creator" in m and "created_date" in m for m in _rows(item.get("messages"))[:50])


def _parse_google_chat(item: JsonObject) -> Conversation:
    turns = _Turns()
    for message in _rows(item.get("messages")):
        if message.get("message_state") == "DELETED" or "deletion_metadata" in message:
            turns.left_out["notice"] += 1
            continue
        creator = _object(message.get("creator"))
        others = Counter({"file": _list_length(message, "attached_files")})
        date = " ".join(str(message.get("created_date") or "")[:100].split())
        if found := _GOOGLE_DATE.match(date):
            date = f"{found[1]} {found[2]}"
        turns.add(creator.get("name") or creator.get("email"), date, message.get("text"), files=others)
    return turns.conversation()


# Microsoft Teams: chatMessage resources of Graph, and the personal export of Teams and Skype.

_TEAMS_WORDS = ("Text", "RichText", "RichText/Html")


def _are_teams_messages(rows: Sequence[JsonObject]) -> bool:
    return any("createdDateTime" in row and isinstance(row.get("body"), dict) for row in rows[:50])


def _parse_teams_messages(rows: Sequence[JsonObject]) -> Iterator[Conversation]:
    chats: dict[str | None, _Turns] = {}
    for row in rows:
        turns = chats.setdefault(_teams_session(row), _Turns())
        if row.get("messageType", "message") != "message" or row.get("deletedDateTime"):
            turns.left_out["notice"] += 1
            continue
        body, sender = _object(row.get("body")), _object(row.get("from"))
        text = body.get("content")
        if str(body.get("contentType")).lower() == "html":
            text = _html_words(text)
        name = next((_object(sender.get(k)).get("displayName") for k in ("user", "application") if sender.get(k)), None)
        turns.add(name, row.get("createdDateTime"), text, files=_list_length(row, "attachments"))
    yield from (turns.conversation(name, is_sorted=False) for name, turns in chats.items())


def _teams_session(row: JsonObject) -> str | None:
    channel = _object(row.get("channelIdentity")).get("channelId")
    return parse_name(row.get("chatId")) or parse_name(channel)


def _is_teams_export(item: JsonObject) -> bool:
    return isinstance(item.get("MessageList"), list)


def _parse_teams_export(item: JsonObject) -> Conversation:
    turns = _Turns()
    for message in _rows(item.get("MessageList")):
        if message.get("messagetype") not in _TEAMS_WORDS:
            is_notice = str(message.get("messagetype")).startswith(("ThreadActivity", "Event"))
            turns.left_out["notice" if is_notice else "file"] += 1
            continue
        time = message.get("originalarrivaltime")
        turns.add(message.get("displayName") or message.get("from"), time, _html_words(message.get("content")))
    return turns.conversation(find_name(item, ("id",)), find_name(item, ("displayName",)), is_sorted=False)


def _html_words(markup: JsonValue) -> str:
    """Returns the words of a message in HTML."""
    from lxml import etree, html

    if not isinstance(markup, str) or not markup.strip():
        return ""
    try:
        root = html.fragment_fromstring(markup, create_parent="div")
    except (etree.ParserError, ValueError):
        return markup
    for element in list(root.iter("br", "p", "div", "li")):
        element.tail = "\n" + (element.tail or "")
    lines = (" ".join(line.split()) for line in root.text_content().split("\n"))
    return "\n".join(line for line in lines if line)


# Signal: signal-cli's envelopes, and the messages of Signal Desktop.


def _are_signal_envelopes(rows: Sequence[JsonObject]) -> bool:
    return any("sourceNumber" in e or "dataMessage" in e for row in rows[:50] if (e := _object(row.get("envelope"))))


def _parse_signal_envelopes(rows: Sequence[JsonObject]) -> Iterator[Conversation]:
    chats: dict[str | None, _Turns] = {}
    for row in rows:
        envelope = _object(row.get("envelope"))
        sent = _object(_object(envelope.get("syncMessage")).get("sentMessage"))
        message = sent or _object(envelope.get("dataMessage"))
        person = envelope.get("sourceName") or envelope.get("sourceNumber") or envelope.get("source")
        numbers = ("destinationNumber", "destination") if sent else ("sourceNumber", "source", "sourceName")
        other = find_name(sent or envelope, numbers)
        group = _object(message.get("groupInfo"))
        turns = chats.setdefault(parse_name(group.get("groupId") or other), _Turns())
        if not message or message.get("reaction") or message.get("remoteDelete"):
            turns.left_out["notice"] += 1
            continue
        time = message.get("timestamp") or envelope.get("timestamp")
        others = Counter({"file": _list_length(message, "attachments"), "sticker": int("sticker" in message)})
        turns.add(person, time, message.get("message"), files=others)
    yield from (turns.conversation(name) for name, turns in chats.items())


def _are_signal_messages(rows: Sequence[JsonObject]) -> bool:
    return any("conversationId" in row and "sent_at" in row and "type" in row for row in rows[:50])


def _parse_signal_messages(rows: Sequence[JsonObject]) -> Iterator[Conversation]:
    chats: dict[str | None, _Turns] = {}
    for row in rows:
        turns = chats.setdefault(parse_name(row.get("conversationId")), _Turns())
        kind = row.get("type")
        if kind not in ("incoming", "outgoing"):
            turns.left_out["notice"] += 1
            continue
        names = ("profileName", "name", "source", "sourceServiceId", "sourceUuid")
        speaker = find_name(row, names) or ("user" if kind == "outgoing" else None)
        others = Counter({"file": _list_length(row, "attachments"), "sticker": int(bool(row.get("sticker")))})
        turns.add(speaker, row.get("sent_at"), row.get("body"), files=others)
        if kind == "outgoing" and turns.rows:
            turns.rows[-1] |= {"role": "user"}
    yield from (turns.conversation(name, is_sorted=False) for name, turns in chats.items())


def _are_signal_frames(rows: Sequence[JsonObject]) -> bool:
    return any(isinstance(row.get("chatItem"), dict) for row in rows[:2000])


def _parse_signal_frames(rows: Sequence[JsonObject]) -> Iterator[Conversation]:
    """Yields the chats of Signal's export of an account, a frame a line."""
    people: dict[str, str] = {}
    chats: dict[str, str] = {}
    turns: dict[str, _Turns] = {}
    for row in rows:
        if recipient := _object(row.get("recipient")):
            people[str(recipient.get("id"))] = _signal_name(recipient)
        elif chat := _object(row.get("chat")):
            chats[str(chat.get("id"))] = str(chat.get("recipientId"))
        elif item := _object(row.get("chatItem")):
            found = turns.setdefault(str(item.get("chatId")), _Turns())
            message = _object(item.get("standardMessage"))
            if not message:
                found.left_out["notice"] += 1
                continue
            stamp = item.get("dateSent")
            time = int(stamp) if isinstance(stamp, str) and stamp.isdecimal() else stamp
            text = _object(message.get("text")).get("body")
            speaker = people.get(str(item.get("authorId"))) or None
            found.add(speaker, time, text, files=_list_length(message, "attachments"))
    for name, found in turns.items():
        yield found.conversation(name, people.get(chats.get(name, "")) or None)


def _signal_name(recipient: JsonObject) -> str:
    if "self" in recipient:
        return "user"
    contact, group = _object(recipient.get("contact")), _object(recipient.get("group"))
    title = _object(_object(group.get("snapshot")).get("title")).get("title")
    names = [contact.get(k) for k in ("profileGivenName", "profileFamilyName")]
    full = " ".join(n for n in names if isinstance(n, str) and n)
    return full or parse_name(contact.get("e164")) or parse_name(title) or ""


# Gemini (Takeout): what a person wrote, with the answer as a page; Grok: {"conversation", "responses"}.


def _are_gemini_activities(rows: Sequence[JsonObject]) -> bool:
    return all(str(row.get("header")).startswith(("Gemini Apps", "Bard")) and "time" in row for row in rows)


def _parse_gemini_activities(rows: Sequence[JsonObject]) -> Iterator[Conversation]:
    turns = _Turns()
    for row in reversed(rows):
        title = str(row.get("title") or "")
        if not title.startswith("Prompted"):
            turns.left_out["notice"] += 1
            continue
        turns.add("user", row.get("time"), title.removeprefix("Prompted").strip("\xa0 "))
        for answer in _rows(row.get("safeHtmlItem")):
            turns.add("assistant", row.get("time"), _html_words(answer.get("html")))
    yield turns.conversation()


def _is_grok(item: JsonObject) -> bool:
    return "conversation" in item and "response" in _first(_rows(item.get("responses")))


def _parse_grok(item: JsonObject) -> Conversation:
    turns = _Turns()
    for row in _rows(item.get("responses")):
        response = _object(row.get("response"))
        speaker = "user" if str(response.get("sender")).lower() == "human" else "assistant"
        turns.add(speaker, _mongo_time(response.get("create_time")), response.get("message"))
    about = _object(item.get("conversation"))
    return turns.conversation(find_name(about, ID_FIELDS), find_name(about, ("title",)))


def _mongo_time(value: JsonValue) -> JsonValue:
    inner = _object(value).get("$date", value)
    stamp = _object(inner).get("$numberLong", inner)
    return int(stamp) if isinstance(stamp, str) and stamp.isdecimal() else stamp


# Which program wrote a value.

_OBJECTS: tuple[tuple[Callable[[JsonObject], bool], Parse], ...] = (
    (_is_open_webui, _parse_open_webui),
    (_is_discord_exporter, _parse_discord_exporter),
    (_is_meta, _parse_meta),
    (_is_google_chat, _parse_google_chat),
    (_is_telegram, _parse_telegram),
    (_is_teams_export, _parse_teams_export),
    (_is_grok, _parse_grok),
)
_LISTS: tuple[
    tuple[Callable[[Sequence[JsonObject]], bool], Callable[[Sequence[JsonObject]], Iterable[Conversation]]], ...
] = (
    (_are_teams_messages, _parse_teams_messages),
    (_are_signal_envelopes, _parse_signal_envelopes),
    (_are_signal_messages, _parse_signal_messages),
    (_are_signal_frames, _parse_signal_frames),
    (_are_gemini_activities, _parse_gemini_activities),
)


def parse_program_object(item: JsonObject, names: Mapping[str, str] | None = None) -> list[Conversation]:
    """Returns the conversation of an object as a chat program exports it; none for others.

    Args:
        item: the object.
        names: what a file beside it calls its channel, where it has no name itself.
    """
    found = next((parse(item) for matches, parse in _OBJECTS if matches(item)), None)
    if found is None:
        return []
    channel = (names or {}).get("channel") if _is_google_chat(item) else None
    return [replace(found, title=found.title or channel)]


def parse_program_list(items: Sequence[JsonValue], names: Mapping[str, str] | None = None) -> list[Conversation]:
    """Returns the conversations of a list of messages as a chat program exports it; none for others."""
    rows = [item for item in items if isinstance(item, dict)]
    if not rows or 2 * len(rows) < len(items):
        return []
    if _are_discord_rows(rows):
        return [parse_discord_rows(rows, names)]
    return next((list(parse(rows)) for matches, parse in _LISTS if matches(rows)), [])


def is_program(value: JsonValue) -> bool:
    """Returns whether a value is a conversation as one of the programs exports it."""
    return isinstance(value, dict) and any(matches(value) for matches, _ in _OBJECTS)


_SNOWFLAKE = re.compile(r"\d{15,25}")


def is_side_file(name: str, value: JsonValue) -> bool:
    """Returns whether a file of an export says only which channels and accounts there are, and has no message."""
    if not isinstance(value, dict) or not value:
        return False
    file = name.rpartition("/")[2]
    if file == "index.json":
        return all(_SNOWFLAKE.fullmatch(k) and isinstance(v, str | None) for k, v in value.items())
    known: dict[str, set[str]] = {
        "channel.json": {"id", "type"},
        "guild.json": {"id", "name"},
        "user.json": {"id", "username", "discriminator"},
        "group_info.json": {"members"},
        "user_info.json": {"membership_info"},
    }
    return file in known and value.keys() >= known[file]
