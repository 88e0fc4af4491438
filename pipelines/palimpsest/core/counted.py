"""Numbers of things in a line for people."""


def counted(number: int, noun: str) -> str:
    """Returns `1 memory` or `2 memories`."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun}"
