"""What calls raise. `error_of` makes the exception of an exit code of the command line."""

from __future__ import annotations

from typing import Any, ClassVar


class Error(Exception):
    """What went wrong, as the command line says it.

    Attributes
    ----------
    what : str
        The sentence about the offending value.
    where : str
        "file: /json/path" or the option; may be empty.
    hint : str
        What to do next; may be empty.
    exit_code : int
        What the command line ends with.
    result : Result or None
        The answer, where there is one all the same: `DoesNotFit` has the plan's memory.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, where: str = "", hint: str = "", result: Any = None) -> None:
        super().__init__(what, where, hint)
        self.what = what
        self.where = where
        self.hint = hint
        self.result = result

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"


class CheckFailed(Error):
    """It ran, and a check refused the result: a breach of physics, a lesson's claim, `max_error`."""

    exit_code = 1


class UsageError(Error, ValueError):
    """A wrong option, scenario or file."""

    exit_code = 2


class DoesNotFit(Error):
    """The plan does not fit or cannot exist there, or no plan does; `result` has the answer where there is one."""

    exit_code = 3


class Unavailable(Error):
    """What should do it is not built in, or this machine lacks the memory."""

    exit_code = 4


class InternalError(Error):
    """A defect of Rehearse: please report it with the scenario that shows it."""

    exit_code = 70


class Note(UserWarning):
    """A remark that the command line writes to standard error: a former spelling, what a framework cannot do."""


_BY_CODE = {kind.exit_code: kind for kind in (CheckFailed, UsageError, DoesNotFit, Unavailable, InternalError)}


def error_of(code: int, what: str, where: str, hint: str, result: Any = None) -> BaseException:
    """The exception of an exit code; KeyboardInterrupt for 130."""
    if code not in _BY_CODE:
        return KeyboardInterrupt(what)
    return _BY_CODE[code](what, where, hint, result)
