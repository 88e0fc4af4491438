from collections.abc import Callable
from pathlib import Path

import pytest

from palimpsest.sources.extracted import Extraction
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.collection_config import Limits


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Extraction]:
    """Writes bytes or text to a file of the given name and reads it."""

    def _read(name: str, content: bytes | str, **limits: int) -> Extraction:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_source(path, name, Limits(**limits))

    return _read
