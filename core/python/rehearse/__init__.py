"""Rehearse simulates distributed training: how long a step takes on a cluster, why, and whether it fits.

    import rehearse

    step = rehearse.simulate("scenarios/llama3_8b_h100_8.json", set={"strategy.tp": 2})
    print(step.step_time_s, step.mfu)          # Names end in their units; shares are of 1.
    step                                       # In a notebook: the report with its pictures.
    pandas.DataFrame(step.table("memory"))     # pandas takes the tables, and nothing needs it.

A scenario is a file or a dictionary with the same keys; `set` changes keys, as `--set` does. The functions are the verbs
of the command line with the same options and the same answers: `help(rehearse.search)` has what `rehearse search --help`
has. What fails raises `rehearse.Error` with `what`, `where` and `hint`. Other Python threads run while an answer is
worked out, and Ctrl-C ends it.
"""

from . import _core, _data
from ._errors import CheckFailed, DoesNotFit, Error, InternalError, Note, Unavailable, UsageError
from ._result import Record, Result, Table
from ._verbs import FUNCTIONS

_core.use_data(_data.folder())
__version__: str = _core.version
globals().update(FUNCTIONS)

__all__ = [
    *FUNCTIONS,
    *("CheckFailed", "DoesNotFit", "Error", "InternalError", "Note", "Unavailable", "UsageError"),
    *("Record", "Result", "Table"),
]
