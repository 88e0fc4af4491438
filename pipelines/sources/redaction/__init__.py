"""Secrets are found in what was read and taken out before anything is stored."""
