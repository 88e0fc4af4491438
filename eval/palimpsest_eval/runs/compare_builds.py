"""`palimpsest compare`: what changed between two builds that a home keeps."""

from palimpsest.build.stages import indexed_tables
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest_eval.gate.build_settings import build_settings
from palimpsest_eval.gate.compare import compare, compare_text

_MAX_DIGITS = 12


def compare_builds(home: Home, a: str, b: str) -> tuple[JsonObject, str]:
    """Returns what changed between two kept builds, as JSON values and as text.

    Raises:
        PalimpsestError: the home does not keep one of them.
    """
    builds = [_kept_build(home, x) for x in (a, b)]
    (older, newer), runs = (x.tables(indexed_tables()) for x in builds), [x.manifest.golden_runs for x in builds]
    settings = [{c: build_settings(x.manifest, c) for c in x.collections} for x in builds]
    found = compare(older, newer, runs[0], runs[1], settings_a=settings[0], settings_b=settings[1])
    return found, compare_text(found)


def _kept_build(home: Home, build_id: str) -> Build:
    path = home.builds / build_id.zfill(6)
    is_number = build_id.isascii() and build_id.isdigit() and len(path.name) <= _MAX_DIGITS
    if not is_number or not (path / "manifest.json").is_file():
        available = ", ".join(sorted(p.parent.name for p in home.builds.glob("*/manifest.json"))) or "none"
        raise PalimpsestError(f"build {build_id[:20]}: not kept in home {home.path}; it has {available}")
    return Build(path)
