"""Every Cypher statement. Values are parameters; labels and types come from `model`.

A row (node or relationship) belongs to a home and is visible in the loads `since <= n < until`. A relationship gets
`until` only when it is closed, and is visible only where both of its ends are.
"""
