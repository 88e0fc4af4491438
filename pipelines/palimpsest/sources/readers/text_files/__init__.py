"""Plain text, Markdown and tables of text."""
