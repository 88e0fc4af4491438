"""A night of new turns touches its own month, and those months of which it retires a memory: on a few turns."""

import pytest

from palimpsest_eval.studies.night import measure

OLD = "The deadline of project Heron is 12 March."
TEXTS = [OLD, "The harbour has two cranes.", "I prefer tea in the morning.", "Ben repaired the red lamp."]


@pytest.mark.slow
def test_a_night_reads_one_file_embeds_its_own_texts_and_changes_its_month_alone(tmp_path):
    night = measure(TEXTS, 4, ["The canteen closes at three.", "Ida sings in a choir."], tmp_path)
    assert (night.turns, night.months, night.sources_read) == (4, 4, 1)
    assert night.changed_months == 1 and night.embeddings == 2
    assert night.written_bytes > 0 and night.night_by_stage_s.keys() == night.full_by_stage_s.keys()


@pytest.mark.slow
def test_a_month_of_which_a_memory_is_retired_changes_too(tmp_path):
    night = measure(TEXTS, 4, ["The deadline of project Heron is now 20 April instead of 12 March."], tmp_path)
    assert night.changed_months == 2 and night.sources_read == 1
