"""Texts of the inbox that no build has formed yet: searched by words, in the scopes of the search alone."""
