"""Project files that the user has read and trusted, each as it was then: a changed file is read again."""

import hashlib
from pathlib import Path

from palimpsest.core.files import read_json_object, write_json

_FILE = "trusted.json"


def is_trusted(path: Path, data: bytes) -> bool:
    """Returns whether the user has trusted a file with this content.

    Raises:
        DamagedFile: the list of trusted files is damaged.
    """
    listed = read_json_object(_list_path(), "remove it, and trust your project files again") or {}
    return listed.get(str(path.resolve())) == _hash(data)


def trust(path: Path, data: bytes) -> None:
    """Records that the user trusts a file with this content.

    Args:
        path: of the file.
        data: what the user was shown of it.

    Raises:
        DamagedFile: the list of trusted files is damaged.
    """
    listed = _list_path()
    known = read_json_object(listed, "remove it, and trust your project files again") or {}
    listed.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(listed, known | {str(path.resolve()): _hash(data)})
    listed.chmod(0o600)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _list_path() -> Path:
    import platformdirs

    return platformdirs.user_config_path("palimpsest") / _FILE
