"""Candidate pairs: which older memories a newer one may update, extend or follow from."""
