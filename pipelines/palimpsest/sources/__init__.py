"""From files to the ingest log.

A build reads a collection top down through these modules:

1. `discovery` lists the files of a collection that are sources, with a hash of the content of each.
2. `ingest` compares them with the log and has every new or changed source read.
3. `workers` reads sources in processes whose time and memory are bounded; none can hang or end the build.
4. `readers` turns one file into documents: its bytes and its suffix choose the reader.
5. `filters` takes out what must not be stored: secrets, denied users, turns that opted out, deleted or expired text.
6. `removals` stops the build where too much of the collection is gone.
7. `log_maintenance` brings what the log already holds up to the current settings and deletions.

`records` are the types that pass between them, `secrets` detects secrets in a text.
"""
