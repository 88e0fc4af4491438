"""The request of a search: scopes, filters, strategies, checked arguments."""
