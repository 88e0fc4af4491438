"""Notices damaged files of a home and makes them again: from the record, from another build, or from the sources."""
