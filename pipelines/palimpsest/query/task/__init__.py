"""The task that somebody works on: its brief leads the context of each search for it."""
