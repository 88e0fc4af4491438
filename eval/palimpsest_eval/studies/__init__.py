"""Measurements that print a table and gate nothing."""
