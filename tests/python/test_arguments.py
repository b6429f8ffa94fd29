"""What functions take, and that the table of verbs is all that they are made from."""
import inspect
import pathlib
import re
import subprocess
import sys

import pytest
import rehearse
from conftest import PROGRAM, SOURCE

EIGHT = "scenarios/llama3_8b_h100_8.json"
PRINTING = {"format", "output", "html", "help"}
WANTED = ("estimate", "simulate", "memory", "search", "sweep", "plan", "fleet", "validate", "lesson")


@pytest.fixture(autouse=True)
def in_the_source_tree(monkeypatch):
    monkeypatch.chdir(SOURCE)


def functions():
    return {n: getattr(rehearse, n) for n in rehearse.__all__ if inspect.isfunction(getattr(rehearse, n))}


def test_the_wanted_functions_are_there():
    assert set(WANTED) <= set(functions())


@pytest.mark.parametrize("name", WANTED)
def test_a_function_takes_what_its_verb_takes(name):
    help_text = subprocess.run([PROGRAM, name, "--help"], capture_output=True, text=True, check=True).stdout
    options = {o.replace("-", "_") for o in re.findall(r"^ +(?:-\w, ?)?--([a-z][a-z-]*)", help_text, re.M)} - PRINTING
    taken = {n for n, p in inspect.signature(functions()[name]).parameters.items() if p.kind == p.KEYWORD_ONLY} - {"check"}
    # Options of the part that starts ranks are the program's alone.
    run = {"calibration", "data", "device", "ranks", "ranks_from_env", "numerics", "steps", "trace", "warmup"} if name == "validate" else set()
    assert options - run <= taken | run and taken <= options


def test_values_may_be_of_any_kind():
    plain = rehearse.estimate(EIGHT, set=["strategy.tp=2", "strategy.sequence_parallel=false"])
    assert rehearse.estimate(pathlib.Path(EIGHT), set={"strategy.tp": 2, "strategy.sequence_parallel": False}).to_json() == plain.to_json()
    whole = {"tp": 2, "zero_stage": 1}
    assert rehearse.estimate(EIGHT, set={"strategy": whole}).to_json() == rehearse.estimate(EIGHT, set=["strategy.tp=2", "zero_stage=1"]).to_json()
    assert rehearse.estimate(EIGHT, despite_memory=False, observed=None).to_json() == rehearse.estimate(EIGHT).to_json()


def test_what_python_refuses_is_a_type_error():
    for wrong in ({"nonsense": 1}, {"despite_memory": "yes"}):
        with pytest.raises(TypeError):
            rehearse.estimate(EIGHT, **wrong)
    for call in (rehearse.estimate, rehearse.simulate, rehearse.compare):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="nothing that JSON holds"):
        rehearse.estimate({"model": object()})


def test_references_in_a_dictionary_are_relative_to_the_working_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.json").write_text((SOURCE / "scenarios/models/gpt2/config.json").read_text())
    given = {
        "schema": "rehearse/scenario/v1", "model": "own.json", "cluster": {"machine": "dgx_h100", "nodes": 1},
        "training": {"global_batch": 64, "sequence_length": 1024}, "strategy": {"dp": 8},
    }  # fmt: skip
    assert rehearse.estimate(given).step_time_s > 0


def test_documentation_has_every_option_with_its_default():
    for function in functions().values():
        text = inspect.getdoc(function)
        for name in inspect.signature(function).parameters:
            assert re.search(rf"^{name} : ", text, re.M), (function.__name__, name)
    assert "Default: 10." in inspect.getdoc(rehearse.search)


def test_stubs_say_what_the_module_has():
    package = pathlib.Path(rehearse.__file__).parent
    stubs = (package / "__init__.pyi").read_text()
    assert (package / "py.typed").exists()
    assert set(re.findall(r"^def (\w+)\(", stubs, re.M)) == set(functions())
    compile(stubs, "stubs", "exec")
    for name in rehearse.__all__:
        assert re.search(rf"^def {name}\(|as {name}$", stubs, re.M), name


def test_type_checkers_read_the_stubs(tmp_path):
    pytest.importorskip("mypy")
    use = tmp_path / "use.py"
    use.write_text('import rehearse\n\nx: float = rehearse.estimate("a.json", set={"strategy.tp": 2}).step_time_s\nrehearse.estimate("a.json", nonsense=1)\n')
    said = subprocess.run([sys.executable, "-m", "mypy", str(use)], capture_output=True, text=True, cwd=tmp_path, check=False).stdout
    assert 'use.py:4: error: Unexpected keyword argument "nonsense"' in said and "Found 1 error" in said
