"""What the tests of the Python module share: the program beside it, and the tree's scenarios."""
import os
import pathlib
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("REHEARSE_PROGRAM", str(SOURCE / "build/default/bin/rehearse"))


class Ended:
    """What the program said and ended with."""

    def __init__(self, done):
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()
        self.code = done.returncode


@pytest.fixture
def program(monkeypatch):
    """Runs the program in the source tree, where the tests are, too."""
    monkeypatch.chdir(SOURCE)
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}

    def run(*words):
        return Ended(subprocess.run([PROGRAM, *words], capture_output=True, env=environment, check=False))

    return run
