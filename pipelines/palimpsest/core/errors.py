"""The one exception family. The command line turns each into one line and an exit code, never a traceback."""

from pathlib import Path


class PalimpsestError(Exception):
    """Bad input or usage: the message names the file, the field and the fix. Exit code 2."""

    exit_code = 2


class ArgumentError(PalimpsestError):
    """An argument of the Python API is wrong. The command line names the option instead of the argument."""

    def __init__(self, argument: str, problem: str, value: object = None):
        """Makes the error.

        Args:
            argument: name of the Python argument.
            problem: what is wrong, and what is right.
            value: what was given; None where the argument is missing.
        """
        super().__init__(f"{argument}{'' if value is None else f'={value!r}'}: {problem}")
        self.argument, self.problem, self.value = argument, problem, value

    def as_option(self, option: str) -> str:
        """Returns the message for the command line, where `option` sets the argument."""
        return f"{option}{'' if self.value is None else f' {self.value}'}: {self.problem}"


class DamagedFile(PalimpsestError):
    """A file of a home cannot be read as what it is."""

    def __init__(self, path: Path, fix: str):
        """Makes the error; `fix` says what to do."""
        super().__init__(f"{path}: damaged; {fix}")
        self.path = path


class DamagedPointer(DamagedFile):
    """The pointer of a home to its published build is damaged, or names a build that is not there."""

    def __init__(self, path: Path, message: str):
        """Makes the error; `message` says all."""
        Exception.__init__(self, message)
        self.path = path


class Refused(PalimpsestError):
    """The gate or verify failed. Exit code 1."""

    exit_code = 1


class ComponentFailed(PalimpsestError):
    """A component (server, disk, language model) failed; running again may succeed. Exit code 3."""

    exit_code = 3


class Rejected(Exception):
    """One source cannot be read; its message becomes the reason in `rejects`, and every other source still builds."""


def first_line_of(error: BaseException, characters: int = 160) -> str:
    """Returns the beginning of an error's message, at most its first line; the name of its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:characters]
