"""Loading a build into the server: rows that differ are written under a number that no reader looks at yet."""
