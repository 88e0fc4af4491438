"""Sources into documents and chunks."""
