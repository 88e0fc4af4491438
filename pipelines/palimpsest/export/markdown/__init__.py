"""The Markdown folder of an export: one file for each document or session, which people read and edit.

`page` is the form of a file: what `write_pages` writes, and what `read_edits` finds changed.
"""
