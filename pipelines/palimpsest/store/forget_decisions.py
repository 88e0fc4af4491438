"""Removes the decisions about what is deleted."""

import json
from pathlib import Path

from palimpsest.core.files import write_bytes
from palimpsest.core.needles import RowSearch
from palimpsest.store.decisions import ABOUT_MEMORIES


def forget_overrides(path: Path, probes: RowSearch) -> int:
    """Removes the overrides of relations of deleted memories, and decisions about them; returns how many lines."""
    if not path.exists():
        return 0
    lines = path.read_text(encoding="utf-8").splitlines()
    gone = {i for i in probes.rows_in(lines) if json.loads(lines[i])["kind"] in ABOUT_MEMORIES}
    if gone:
        kept = [line for i, line in enumerate(lines) if i not in gone]
        write_bytes(path, "".join(line + "\n" for line in kept).encode())
        path.chmod(0o600)
    return len(gone)
