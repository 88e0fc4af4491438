"""Homes on object storage: a working copy on this machine, and immutable objects with one pointer in a bucket."""
