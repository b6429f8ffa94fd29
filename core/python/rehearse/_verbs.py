"""Functions of the module, made from the table of verbs: a new verb or option appears here without an edit."""

from __future__ import annotations

import inspect
import json
import keyword
import os
import textwrap
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from . import _core
from ._errors import Note, error_of
from ._result import Result

_NOTE = "note: "


def python_name(name: str) -> str:
    """'--max-memory' is max_memory, 'SCENARIO' is scenario, 'import' is import_."""
    out = name.lstrip("-").replace("-", "_").lower()
    return out + "_" if keyword.iskeyword(out) else out


def _word(value: Any) -> str:
    """One value as the command line takes it; dictionaries and lists as JSON."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, default=_inside)
    return str(value)


def _inside(value: Any) -> Any:
    """What a dictionary may hold beside what JSON knows."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):  # A number of numpy's.
        return value.item()
    raise TypeError(f"{type(value).__name__} is nothing that JSON holds")


def _varied(value: Any) -> str:
    """Values that a key takes: 1,2,[a,b]."""
    if not isinstance(value, (list, tuple, range)):
        return _word(value)
    words = [_word(v) for v in value]
    return ",".join(f"[{w}]" if "," in w and not w.startswith("[") else w for w in words)


def _keyed(changes: Mapping[str, Any], one: Callable[[Any], str], before: str = "") -> list[str]:
    """{"strategy": {"tp": 2}, "training.seed": 3} as strategy.tp=2 and training.seed=3."""
    out = []
    for key, value in changes.items():
        inside = isinstance(value, Mapping)
        out += _keyed(value, one, f"{before}{key}.") if inside else [f"{before}{key}={one(value)}"]
    return out


class _Parameter:
    """An option or an argument by position, and what values stand for on the command line."""

    def __init__(self, entry: dict[str, Any], positional: bool) -> None:
        self.entry = entry
        self.positional = positional
        self.name = python_name(entry["name"])
        self.value = entry.get("value", entry["name"])
        self.switch = self.value == ""
        self.repeatable = entry["repeatable"]
        self.keyed = self.value.startswith("KEY=VALUE") and self.repeatable

    def words(self, value: Any) -> list[str]:
        if value is None or (self.switch and value is False):
            return []
        if self.switch:
            if value is not True:
                raise TypeError(f"{self.name} is True or False, not {value!r}")
            return ["true"]
        if self.keyed and isinstance(value, Mapping):
            return _keyed(value, _varied if self.value.endswith("...") else _word)
        if self.repeatable and isinstance(value, (list, tuple)):
            return [_word(v) for v in value]
        return [_word(value)]

    def annotation(self) -> str:
        if self.switch:
            return "bool"
        if self.positional:
            single = "str | os.PathLike[str] | Mapping[str, Any]"
            return f"{single} | Sequence[{single}]" if self.repeatable else single
        if self.keyed:
            return "Mapping[str, Any] | Sequence[str] | str | None"
        if self.repeatable:
            return "Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | None"
        return "str | int | float | os.PathLike[str] | None"

    def doc(self) -> str:
        kind = self.annotation().replace("os.PathLike[str]", "path").replace("Mapping[str, Any]", "dict")
        fallback = self.entry.get("default", "")
        default = f" Default: {fallback}." if fallback else ""
        form = f" As {self.value}." if self.value not in ("", self.entry["name"]) else ""
        help_text = self.entry["help"].rstrip(".")
        text = textwrap.fill(f"{help_text}.{form}{default}", 100, initial_indent="    ", subsequent_indent="    ")
        return f"{self.name} : {kind}\n{text}"


_CHECK = """check : bool
    Whether what the command line ends with exit code 1 or 3 is raised as CheckFailed or DoesNotFit, whose `result` is
    the answer. Default: True."""

_RETURNS = """Returns
-------
Result
    The answer's JSON as attributes. Names end in their units: `_s` seconds, `_bytes` bytes, `_per_s` per second, `_usd`
    US dollars; shares are of 1."""

_RAISES = """Raises
------
rehearse.Error
    UsageError, DoesNotFit, CheckFailed or Unavailable, with `what`, `where` and `hint`."""


def _documentation(verb: dict[str, Any], parameters: list[_Parameter]) -> str:
    wrapped = textwrap.fill(verb["notes"], 104)
    parts = [verb["summary"]]
    if wrapped:
        parts.append(wrapped)
    parts.append("Parameters\n----------\n" + "\n".join([*(p.doc() for p in parameters), _CHECK]))
    parts += [_RETURNS, _RAISES]
    commands = "\n".join(f"    {example}" for example in verb["examples"])
    if commands:
        parts.append(f"On the command line::\n\n{commands}")
    return "\n\n".join(parts) + "\n"


def _signature(parameters: list[_Parameter]) -> inspect.Signature:
    out = []
    for p in parameters:
        kind = inspect.Parameter.KEYWORD_ONLY
        if p.positional:
            kind = inspect.Parameter.VAR_POSITIONAL if p.repeatable else inspect.Parameter.POSITIONAL_OR_KEYWORD
        absent: Any = False if p.switch else None
        if kind == inspect.Parameter.VAR_POSITIONAL or (p.positional and p.entry["required"]):
            absent = inspect.Parameter.empty
        out.append(inspect.Parameter(p.name, kind, default=absent, annotation=p.annotation()))
    out.append(inspect.Parameter("check", inspect.Parameter.KEYWORD_ONLY, default=True, annotation="bool"))
    return inspect.Signature(out, return_annotation="Result")


def _given(signature: inspect.Signature, parameters: list[_Parameter], args: Any, kwargs: Any) -> list[tuple[str, bytes]]:
    bound = signature.bind(*args, **kwargs).arguments
    out = []
    for p in parameters:
        value = bound.get(p.name)
        if p.positional and p.repeatable:  # One after the other, or a list of them.
            value = [v for each in value or () for v in (each if isinstance(each, (list, tuple)) else [each])]
            if p.entry["required"] and not value:
                raise TypeError(f"missing {p.name}: {p.entry['help']}")
        out += [(p.entry["name"], os.fsencode(word)) for word in p.words(value)]
    return out


def _answer_of(verb: str, given: list[tuple[str, bytes]], check: bool) -> Result:
    try:
        answer = _core.call(verb, given)
    except KeyboardInterrupt as interrupt:
        if hasattr(interrupt, "answer"):
            interrupt.result = Result(interrupt.answer)  # What was found until then.
        raise
    for line in answer.notes.splitlines():
        if line.startswith(_NOTE):
            warnings.warn(line[len(_NOTE) :], Note, stacklevel=3)
    result = Result(answer)
    if answer.code != 0 and check:
        what, hint = answer.verdict
        raise error_of(answer.code, what, "", hint, result)
    return result


def function_of(verb: dict[str, Any]) -> Callable[..., Result]:
    """The function that runs a verb."""
    parameters = [_Parameter(p, True) for p in verb["positionals"]] + [_Parameter(o, False) for o in verb["options"]]
    signature = _signature(parameters)

    def run(*args: Any, **kwargs: Any) -> Result:
        return _answer_of(verb["name"], _given(signature, parameters, args, kwargs), kwargs.get("check", True))

    run.__name__ = run.__qualname__ = python_name(verb["name"])
    run.__module__ = "rehearse"
    run.__doc__ = _documentation(verb, parameters)
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


FUNCTIONS = {python_name(v["name"]): function_of(v) for v in _core.verbs()}
