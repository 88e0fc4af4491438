"""Why `palimpsest review` lists a relation. No labeler imports this: its labels do not depend on it."""

from palimpsest.relations.classify.label_types import DISPUTED

LOW_TRUST = "low trust"
"""The evidence rule of an UPDATE that was refused because its source is trusted less."""
PART_ENDED = "part ended"
"""An UPDATE that ended a part of a memory, of which the rest is still latest."""
REVIEW_REASONS = ("premise retired", LOW_TRUST, "low confidence", DISPUTED, PART_ENDED, "abstained")
"""The most serious first."""
