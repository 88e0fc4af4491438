"""One module a kind of source: its bytes into extracted documents."""
