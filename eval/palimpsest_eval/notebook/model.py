"""The language model of the notebooks that tune: the one that is named, where it answers."""

import os
from dataclasses import replace

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.setting_layers import apply_layers
from palimpsest.lm.client import ChatMessage, LmClient, LmUnavailable
from palimpsest.lm.settings import LmSettings, lm_settings

_MISSING = (
    "No language model answers: {why}.\n"
    "The part of this notebook that tunes is left out. Name a model in the cell of parameters, LM = 'MODEL@URL' or"
    " 'PROVIDER/MODEL', or with `palimpsest config set lm.server`; docs/local-model.md starts one on this machine."
)


def find_model(named: str | None = None) -> LmSettings | None:
    """Returns the model to tune with, None where none answers; prints which it is, or what to do.

    Args:
        named: MODEL@URL or PROVIDER/MODEL; None means the setting `lm.server`.
    """
    try:
        if named:
            os.environ["PALIMPSEST_LM"] = named
        apply_layers()
        settings = lm_settings()
        LmClient(replace(settings, attempts=1, max_tokens=1)).complete([ChatMessage("user", "Say yes.")])
    except LmUnavailable as e:
        print(_MISSING.format(why=f"{settings.where} ({e})"))  # noqa: T201  # a notebook's cell
    except PalimpsestError as e:
        print(_MISSING.format(why=e))  # noqa: T201
    else:
        print(f"{settings.where} answers")  # noqa: T201
        return settings
    return None
