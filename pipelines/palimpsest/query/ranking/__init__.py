"""Scores of a scope's memories, the same for every backend; pure numpy.

`rank` follows links from the best memories, with the decay that a score has on each link. `conversation` and
`spreading` are scorers: they score every memory before that, with the weights of `request/strategies` (there too: the
shares that a turn gets of adjacent turns).
"""
