"""The settings that a build was made with, one flat mapping a collection, and what differs between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.core.json_types import JsonValue
from palimpsest.memories.embedders.space import MINILM
from palimpsest.query.request.strategies import NAMED, STRATEGIES, weights_for
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.manifest import BuildManifest

_CODE = "code."
_NOT_SETTINGS = ("name", "description", "overdue_hours")
_UNSET = "not set"


@dataclass(frozen=True)
class SettingChange:
    """A setting whose value differs. `name` is dotted, such as `weights.words`; None means that it is not set."""

    name: str
    old: JsonValue
    new: JsonValue

    def text(self, collection: str) -> str:
        """Returns `collection.name old -> new`."""
        return f"{collection}.{self.name} {_format_value(self.old)} -> {_format_value(self.new)}"


def build_settings(manifest: BuildManifest, collection: str) -> dict[str, JsonValue]:
    """Returns the settings of one collection of a build: dotted names, values as they took effect.

    Contains collection.yaml (defaults included), the strategy that `auto` resolves to, its weights, `embedder`,
    `labeler` and `code.<part>`, a hash of the code of each part. A part that the manifest of an older build lacks is
    left out.

    Args:
        manifest: the build's manifest.
        collection: name of the collection.
    """
    settings = manifest.settings
    config = {k: v for k, v in manifest.configs.get(collection, {}).items() if k not in _NOT_SETTINGS}
    weights = settings.get("weights", {}).get(collection, {})
    given = cast(Mapping[str, float], config.pop("weights", None) or weights)
    found = _flatten(config)
    if strategy := settings.get("strategies", {}).get(collection):
        found["strategy"] = strategy
        embedder = str(settings.get("spaces", {}).get(collection, {}).get("embedder", MINILM))
        defaults = weights_for(STRATEGIES[strategy], embedder) if strategy in STRATEGIES else None
        for name in NAMED:
            value = given.get(name)
            found[f"weights.{name}"] = getattr(defaults, name, None) if value is None else value
    if model := settings.get("model_id"):
        found["embedder"] = model
    if labeler := manifest.labeler:
        found["labeler"] = labeler
    return found | {f"{_CODE}{part}": key for part, key in manifest.code.items()}


def changed_settings(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[SettingChange, ...]:
    """Returns the settings that differ, by name, code aside; nothing where the settings of either side are unknown.

    A setting that one side does not know, because another version of Palimpsest made it, differs only where the other
    side's value is not the default.
    """
    if not old or not new:
        return ()
    defaults = _flatten(CollectionConfig(name="x", description="x").model_dump())
    changes = []
    for name in sorted(old.keys() | new.keys()):
        before, after = (side.get(name, defaults.get(name)) for side in (old, new))
        if not name.startswith(_CODE) and before != after:
            changes.append(SettingChange(name, before, after))
    return tuple(changes)


def changed_code(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Returns the parts of Palimpsest whose code differs, by name; parts that one side does not know are left out."""
    shared = sorted(k for k in old.keys() & new.keys() if k.startswith(_CODE))
    return tuple(k.removeprefix(_CODE) for k in shared if old[k] != new[k])


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, JsonValue]:
    flat: dict[str, JsonValue] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            flat[f"{prefix}{name}"] = ", ".join(map(str, value))
        else:
            flat[f"{prefix}{name}"] = None if isinstance(value, Mapping) else value
    return flat


def _format_value(value: JsonValue) -> str:
    if value is None or value == "":
        return _UNSET
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
