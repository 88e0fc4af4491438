"""What several readers share: clean text, encodings, dates, front matter, sidecars, tables, archives."""
