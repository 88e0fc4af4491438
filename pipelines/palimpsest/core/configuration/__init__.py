"""Settings of a process: one table, and the layers that give their values.

A setting is an environment variable. Where the environment does not set it, a project file (`palimpsest.toml`) does;
where that does not, the user's file does; else its default counts. A value from a file acts as the variable would.
"""
