"""Says why a folder has no collections to build, and what to do about it."""

from pathlib import Path


def why_no_corpus(folder: Path) -> str:
    """Returns why a folder is no corpus, and the fix: it may be a collection itself, or the files of one."""
    folder = folder.absolute()
    if (folder / "collection.yaml").exists():
        return f"it is a collection; name the folder that contains it: --corpus {folder.parent}"
    made = folder if any(path.is_file() for path in folder.iterdir()) else folder / "NAME"
    command = f"palimpsest collection create {made.name} --description TEXT --corpus {made.parent}"
    return f"no folder in it has a collection.yaml; {command} writes one"
