"""All that is stored about one person, as a folder for that person and as an import for another home.

`export_user` writes the folder; `read_export` checks one that somebody else may have changed; `import_export` makes
collections of it, or applies what was edited in its Markdown files (`markdown/`).
"""
