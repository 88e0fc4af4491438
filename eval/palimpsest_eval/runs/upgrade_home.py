"""`palimpsest home upgrade`: makes the build again as this version makes it, judges it, publishes it."""

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.core.errors import Refused
from palimpsest.core.files import FORMAT, write_format
from palimpsest.core.types import JsonObject
from palimpsest.pipeline.finish import publish_build, refusal
from palimpsest.pipeline.housekeeping import found_format, stage_upgrade
from palimpsest.store.builds import kept, published, staged
from palimpsest.store.home import Home
from palimpsest.text.tokenizer import save_tokenizer
from palimpsest_eval.runs.judge_build import check_staged, judge_staged

_LOCK_WAIT_S = 5.0
_MAX_REASONS = 3


@dataclass(frozen=True)
class Upgrade:
    """What an upgrade did; `before` equals `format` where there was nothing to do."""

    before: int
    format: int
    build_id: str
    digest: str
    memories: int
    seconds: float

    def to_json(self) -> JsonObject:
        """Returns the JSON that `home upgrade --json` prints."""
        return asdict(self)


def upgrade_home(home: Home, corpora: list[Path] | None = None) -> Upgrade:
    """Upgrades a home of an earlier format in place; one of this format is left as it is.

    Builds of the earlier format are removed once the new one is published: no command of this version reads them.

    Args:
        home: the home.
        corpora: where the folders of its collections are, where the home does not know.

    Raises:
        PalimpsestError: nothing is published, a newer version wrote the home, the settings of a collection are not
            there, or another process is writing the home.
        Refused: the new build breaks an invariant, or the gate closed; the home stays as it was.
    """
    started = time.perf_counter()
    before = found_format(home)
    with home.lock(_LOCK_WAIT_S):
        if before == FORMAT:
            write_format(home.path)
        else:
            save_tokenizer(home.path)
            stage_upgrade(home, corpora)
            _publish(home)
            current = published(home)
            for old in kept(home):
                if current is not None and old.build_id < current.build_id:
                    shutil.rmtree(old.path)
        build = published(home)
    assert build is not None
    manifest, seconds = build.manifest, round(time.perf_counter() - started, 3)
    return Upgrade(before, FORMAT, build.build_id, manifest.digest, manifest.memories, seconds)


def _publish(home: Home) -> None:
    check_staged(home)
    if not staged(home).manifest.violations:
        judge_staged(home)
    if reasons := refusal(staged(home).manifest):
        raise Refused(
            f"home {home.path}: the upgraded build is staged, not published: {'; '.join(reasons[:_MAX_REASONS])}"
        )
    publish_build(home)
