"""What a query asks for: scopes, filters, strategies, checked arguments."""
