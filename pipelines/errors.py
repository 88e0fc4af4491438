"""The one exception family. The command line turns each into one line and an exit code, never a traceback."""


class PalimpsestError(Exception):
    """Bad input or usage: the message names the file, the field and the fix. Exit code 2."""

    exit_code = 2


class Refused(PalimpsestError):
    """The gate or verify said no. Exit code 1."""

    exit_code = 1


class ComponentFailed(PalimpsestError):
    """A component (server, disk, language model) failed; running again may succeed. Exit code 3."""

    exit_code = 3


class Rejected(Exception):
    """One source cannot be read; its message becomes the reason in `rejects`, and every other source still builds."""
