"""The front page's lines of Python run as they stand, wherever the data are."""
import re

import pytest
from conftest import SOURCE

BLOCKS = re.findall(r"^```python\n(.*?)^```", (SOURCE / "README.md").read_text(), re.S | re.M)


@pytest.mark.parametrize("folder", ["source", "elsewhere"])
def test_the_front_page_runs(folder, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(SOURCE if folder == "source" else tmp_path)
    assert BLOCKS
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), {})
    assert re.fullmatch(r"\d+\.\d\d s, MFU \d+\.\d%, bound by \w+\n", capsys.readouterr().out)


def test_the_page_of_the_module_runs(monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(SOURCE)
    for block in re.findall(r"^```python\n(.*?)^```", (SOURCE / "core/python/README.md").read_text(), re.S | re.M):
        exec(compile(block, "core/python/README.md", "exec"), {})
