"""A small Outlook .msg, written by hand: a compound file of version 3."""

import struct
from datetime import UTC, datetime

_END, _FAT, _NONE = 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF

Tree = dict[str, "bytes | Tree"]


def msg(
    subject: str, body: str, sender: str, sent: datetime | None = None, attachments: dict[str, bytes] | None = None
) -> bytes:
    """Returns the bytes of a mail with these properties, one recipient and the attachments."""
    own = {
        "0037001F": _utf16(subject), "1000001F": _utf16(body), "0C1F001F": _utf16(sender), "0C1A001F": _utf16(sender),
    }  # fmt: skip
    tree = _storage(own, bytes(32), [(0x00390040, _file_time(sent))] if sent else [])
    to = {"3001001F": _utf16("Lea"), "39FE001F": _utf16("lea@example.org")}
    tree["__recip_version1.0_#00000000"] = _storage(to, bytes(8), [])
    for n, (name, data) in enumerate((attachments or {}).items()):
        tree[f"__attach_version1.0_#{n:08X}"] = _storage(
            {"3707001F": _utf16(name), "37010102": data}, bytes(8), [(0x37050003, 1)]
        )
    return compound(tree)


def _storage(streams: dict[str, bytes], header: bytes, numbers: list[tuple[int, int]]) -> Tree:
    """A storage of properties: long ones as streams of their own, all of them listed in one."""
    listed = [struct.pack("<IIQ", int(tag, 16), 6, len(data)) for tag, data in streams.items()]
    listed += [struct.pack("<IIQ", tag, 6, value) for tag, value in numbers]
    tree: Tree = {"__properties_version1.0": header + b"".join(listed)}
    return tree | {f"__substg1.0_{tag}": data for tag, data in streams.items()}


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def compound(tree: Tree) -> bytes:
    """Returns a compound file with these storages and streams; streams under 4,096 bytes lie in the mini stream."""
    entries: list[bytearray] = []
    plain, mini = _Chains(512), _Chains(64)

    def add(name: str, content: "bytes | Tree", kind: int) -> int:
        number = len(entries)
        entries.append(bytearray(128))
        child = _NONE
        parts = content if isinstance(content, dict) else {}
        for below in sorted(parts, key=lambda n: (len(n), n.upper()), reverse=True):  # a tree that leans to one side
            sibling, child = child, add(below, parts[below], 1 if isinstance(parts[below], dict) else 2)
            struct.pack_into("<I", entries[child], 72, sibling)
        data = content if isinstance(content, bytes) else b""
        text = _utf16(name) + b"\0\0"
        entries[number][: len(text)] = text
        struct.pack_into("<HBBIII", entries[number], 64, len(text), kind, 1, _NONE, _NONE, child)
        struct.pack_into("<IQ", entries[number], 116, (mini if len(data) < 4096 else plain).store(data), len(data))
        return number

    add("Root Entry", tree, 5)
    within = b"".join(mini.sectors)
    struct.pack_into("<IQ", entries[0], 116, plain.store(within), len(within))
    mini_fat = plain.store(struct.pack(f"<{len(mini.next)}I", *mini.next))
    directory = plain.store(b"".join(entries))
    fat_sectors = (len(plain.next) + 128) // 128 + 1
    first = len(plain.sectors)
    fat = plain.next + [_FAT] * fat_sectors
    fat += [_NONE] * (fat_sectors * 128 - len(fat))
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    struct.pack_into("<HHHHH", header, 24, 0x3E, 3, 0xFFFE, 9, 6)
    mini_sectors = -(-4 * len(mini.next) // 512)
    struct.pack_into("<IIIIIIIII", header, 44, fat_sectors, directory, 0, 4096, mini_fat, mini_sectors, _END, 0, first)
    more = [*range(first + 1, first + fat_sectors)]
    struct.pack_into("<108I", header, 80, *more, *[_NONE] * (108 - len(more)))
    return bytes(header) + b"".join(plain.sectors) + struct.pack(f"<{len(fat)}I", *fat)


class _Chains:
    """Sectors of one size, and for each the number of the one that follows it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sectors: list[bytes] = []
        self.next: list[int] = []

    def store(self, data: bytes) -> int:
        first = len(self.sectors)
        for at in range(0, len(data), self.size):
            self.sectors.append(data[at : at + self.size].ljust(self.size, b"\0"))
            self.next.append(len(self.sectors) if at + self.size < len(data) else _END)
        return first if data else _END


def _file_time(when: datetime) -> int:
    return int((when - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds() * 10**7)
