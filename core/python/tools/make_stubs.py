#!/usr/bin/env python3
"""Writes rehearse/__init__.pyi from the module itself: what type checkers and editors read.

usage: make_stubs.py FILE
"""
import inspect
import pathlib
import sys

import rehearse

HEAD = '''# Written by core/python/tools/make_stubs.py from the table of verbs.
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import CheckFailed as CheckFailed
from ._errors import DoesNotFit as DoesNotFit
from ._errors import Error as Error
from ._errors import InternalError as InternalError
from ._errors import Note as Note
from ._errors import Unavailable as Unavailable
from ._errors import UsageError as UsageError
from ._result import Record as Record
from ._result import Result as Result
from ._result import Table as Table

__version__: str
'''


def stub_of(name, function):
    signature = inspect.signature(function)
    words, keywords = [], False
    for p in signature.parameters.values():
        if p.kind == p.KEYWORD_ONLY and not keywords and not any(w.startswith("*") for w in words):
            words.append("*")
        keywords = keywords or p.kind == p.KEYWORD_ONLY
        star = "*" if p.kind == p.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else f" = {p.default!r}"
        words.append(f"{star}{p.name}: {p.annotation}{default}")
    doc = inspect.getdoc(function).replace("\\", "\\\\").replace("\n", "\n    ")
    doc = "\n".join(line.rstrip() for line in doc.splitlines())
    return f"def {name}(\n    " + ",\n    ".join(words) + f",\n) -> Result:\n    '''{doc}\n    '''\n"


def main():
    functions = [n for n in rehearse.__all__ if inspect.isfunction(getattr(rehearse, n))]
    stubs = [stub_of(name, getattr(rehearse, name)) for name in functions]
    pathlib.Path(sys.argv[1]).write_text(HEAD + "\n" + "\n".join(stubs))


if __name__ == "__main__":
    main()
