"""Why `palimpsest review` lists a relation. No labeler imports this: its labels do not depend on it."""

from palimpsest.relations.classify.label_types import DISPUTED

LOW_TRUST = "low trust"
"""The evidence rule of an UPDATE that was refused because its source is trusted less."""
REVIEW_REASONS = ("premise retired", LOW_TRUST, "low confidence", DISPUTED, "abstained")
"""The most serious first."""
