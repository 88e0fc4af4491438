"""The request of a search: scopes, filters, strategies, checked arguments.

`strategies` has every weight of a strategy as a number: vectors, words, priors, time, the shares that a conversation
turn gets of the turns next to it.
"""
