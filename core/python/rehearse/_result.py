"""Answers: what the command line's JSON says, as attributes; its text, tables and page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

_PAGE_HEIGHT = 900  # Pixels of a page inside a notebook.


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(v) for v in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.loads(json.dumps(value))
    return value


class Record(Mapping):
    """An object of an answer's JSON: `record.peak_bytes` or `record["peak_bytes"]`. Names end in their units."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._values[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the answer has no '{name}'; it has {', '.join(self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(k for k in self._values if k.isidentifier())})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={_short(v)}' for k, v in self._values.items())})"

    def __reduce__(self) -> Any:
        return Record, (self._values,)

    def to_dict(self) -> dict[str, Any]:
        """A dictionary of its own, with lists and dictionaries inside."""
        return _plain(self._values)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "{...}" if value else "{}"
    if isinstance(value, list):
        return f"[{len(value)} entries]"
    return repr(value)


def _number(cell: str) -> Any:
    """A cell of a table of plain values as what it is."""
    if cell in ("true", "false"):
        return cell == "true"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return None if cell == "" else cell


class Table(list):
    """Rows of a table, each a dictionary: `pandas.DataFrame(table)` takes it as it is.

    Attributes
    ----------
    columns : list of str
        In their order. Names end in their units.
    """

    def __init__(self, columns: list[str], rows: list[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.columns = list(columns)

    def column(self, name: str) -> list[Any]:
        """The values of one column."""
        if name not in self.columns:
            raise KeyError(f"no column '{name}'; there are {', '.join(self.columns)}")
        return [row.get(name) for row in self]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Raises ImportError where pandas is not installed; nothing else needs it."""
        import pandas

        return pandas.DataFrame(list(self), columns=self.columns)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        rows = (
            "".join(f"<td>{html.escape('' if row.get(c) is None else str(row[c]))}</td>" for c in self.columns)
            for row in self
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{r}</tr>' for r in rows)}</tbody></table>"


def _flat(value: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Objects inside become columns "outer.inner"; lists stay lists."""
    out: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, dict):
            out.update(_flat(inner, f"{before}{key}."))
        else:
            out[before + key] = inner
    return out


class Result(Record):
    """An answer of a verb: its JSON as attributes, its text, tables and page.

    `result.step_time_s` is what the JSON calls `step_time_s`; names end in their units (`_s` seconds, `_bytes`, `_per_s`
    per second), and shares are of 1. `print(result)` shows what the command line prints.

    Attributes
    ----------
    exit_code : int
        What the command line ends with: 0, or with `check=False` 1 or 3.
    notes : list of str
        What the command line writes to standard error.
    """

    __slots__ = ("_answer", "_json", "_parsed", "exit_code", "notes", "__weakref__")

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._json = answer.json
        self._parsed = None
        self.exit_code = answer.code
        self.notes = answer.notes.splitlines()

    @property
    def _values(self) -> dict[str, Any]:  # Most callers in a loop read no more than a few answers.
        if self._parsed is None:
            try:
                read = json.loads(self._json)
            except ValueError:
                read = {"text": self._json}
            self._parsed = read if isinstance(read, dict) else {"entries": read}
        return self._parsed

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={_short(v)}" for k, v in list(self._values.items())[:6])
        more = ", ..." if len(self._values) > 6 else ""
        return f"<rehearse.Result {shown}{more}>"

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __reduce__(self) -> Any:
        raise TypeError("a Result cannot be pickled; its to_dict() can")

    def to_json(self) -> str:
        """The bytes that the command line writes with `--format json`, as text."""
        return self._json

    def to_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(self._values))

    def text(self, format: str = "table", width: int = 100) -> str:
        """What the command line prints in this format ("table", "md", "csv", "json"), `width` columns wide."""
        return self._answer.text(format, width)

    def table(self, name: str | None = None) -> Table:
        """A table of plain values: what the command line writes as csv, or a list of the JSON by its name.

        Objects inside rows become columns such as "by_category.weights". Raises KeyError for what is no list of objects.
        """
        if name is None:
            columns, rows = self._answer.records
            return Table(columns, [dict(zip(columns, map(_number, row))) for row in rows])
        rows = self._values.get(name)
        if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
            lists = [k for k, v in self._values.items() if isinstance(v, list) and v and isinstance(v[0], dict)]
            raise KeyError(f"no list of objects '{name}'; there are {', '.join(lists) or 'none'}")
        flat = [_flat(r) for r in rows]
        return Table(list(dict.fromkeys(k for r in flat for k in r)), flat)

    def tables(self) -> list[str]:
        """Names that `table` takes."""
        return [k for k, v in self._values.items() if isinstance(v, list) and v and all(isinstance(r, dict) for r in v)]

    def to_html(self) -> str:
        """The report with pictures, as `--html` writes it: one page that needs no network. Empty where there is none."""
        return self._answer.html()

    def _repr_html_(self) -> str | None:
        if not self._answer.has_page:
            return f"<pre>{html.escape(str(self))}</pre>"
        return (
            f'<iframe sandbox="allow-scripts allow-popups" srcdoc="{html.escape(self.to_html())}" '
            f'style="width: 100%; height: {_PAGE_HEIGHT}px; border: 0" title="Rehearse"></iframe>'
        )

    def _repr_markdown_(self) -> str:
        return self.text("md")
