"""The demo that comes with the package: what `palimpsest build` builds where there is no corpus of one's own."""

import shutil
from pathlib import Path

from palimpsest.core.progress import say
from palimpsest.store.home import DEFAULT_CORPUS, SHIPPED, Home, is_installed

_PARTS = ("corpora", "golden", "baselines")


def demo_corpora(home: Home) -> list[Path] | None:
    """Returns the demo's corpora where a build that names none would copy them, else None; writes nothing."""
    return [SHIPPED / "corpora"] if _is_wanted(home) else None


def _is_wanted(home: Home) -> bool:
    return is_installed() and not home.sources and not DEFAULT_CORPUS.is_dir()


def copy_demo(home: Home) -> None:
    """Copies the demo to ./data where a build on a new home would find no corpus; does nothing in a checkout.

    A copy, because a home reads its sources again at each build and its owner may edit them: the installed
    package is not the place for that. What exists in ./data is kept.
    """
    if not _is_wanted(home):
        return
    data = DEFAULT_CORPUS.parent
    for part in _PARTS:
        shutil.copytree(
            SHIPPED / part,
            data / part,
            dirs_exist_ok=True,
            copy_function=_copy_new,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    say(f"no {DEFAULT_CORPUS} here: copied the demo corpus, its golden questions and baselines to {data}/")


def _copy_new(source: str, target: str) -> None:
    if not Path(target).exists():
        shutil.copyfile(source, target)
