"""Results as Python sees them: attributes, dictionaries, tables, pages, errors."""
import json
import pickle

import pytest
import rehearse
from conftest import SOURCE

EIGHT = "scenarios/llama3_8b_h100_8.json"
FULL = {"scenario": "scenarios/gpt3_175b_a100_64.json", "set": {"strategy.recompute": "none"}}


@pytest.fixture(autouse=True)
def in_the_source_tree(monkeypatch):
    monkeypatch.chdir(SOURCE)


def test_attributes_are_the_keys_of_the_json():
    step = rehearse.estimate(EIGHT)
    read = json.loads(step.to_json())
    assert step.to_dict() == read
    assert dict(step).keys() == read.keys()
    assert step.step_time_s == step["step_time_s"] == read["step_time_s"]
    assert step.step_time_s_p10 < step.step_time_s < step.step_time_s_p90
    assert step.memory[0].by_category.weights == read["memory"][0]["by_category"]["weights"]
    assert "step_time_s" in dir(step)
    assert sum(step.breakdown.values()) == pytest.approx(step.step_time_s, rel=1e-6)


def test_a_key_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(AttributeError, match="no 'step_time'.*step_time_s"):
        rehearse.estimate(EIGHT).step_time


def test_what_to_dict_gives_is_the_callers_own():
    step = rehearse.estimate(EIGHT)
    step.to_dict()["memory"].clear()
    assert step.memory


def test_text_is_what_the_program_prints(program):
    step = rehearse.estimate(EIGHT)
    assert step.text() == program("estimate", EIGHT).out
    assert step.text("md") == program("estimate", EIGHT, "--format", "md").out
    assert step.text("csv") == program("estimate", EIGHT, "--format", "csv").out
    assert str(step) + "\n" == step.text()
    with pytest.raises(rehearse.UsageError, match="'xml'"):
        step.text("xml")


def test_tables_are_rows_of_numbers():
    table = rehearse.memory(EIGHT).table()
    assert table.columns[0] == "stage"
    assert isinstance(table[0]["needed_bytes"], int)
    assert table.column("fits") == [True]
    with pytest.raises(KeyError, match="no column"):
        table.column("nonsense")
    step = rehearse.estimate(EIGHT)
    assert step.table("memory").column("by_category.weights") == [s.by_category.weights for s in step.memory]
    assert "memory" in step.tables()
    with pytest.raises(KeyError, match="memory"):
        step.table("breakdown")


def test_pandas_takes_tables():
    pandas = pytest.importorskip("pandas")
    points = rehearse.sweep(EIGHT, vary={"strategy.tp": [1, 2, 4]}, check=False).table()
    frame = points.to_pandas()
    assert list(frame.columns) == points.columns
    assert len(pandas.DataFrame(points)) == len(points) == 3
    assert pandas.api.types.is_numeric_dtype(frame["step_time_s"])


def test_a_notebook_shows_the_page_of_the_program(program, tmp_path):
    page = tmp_path / "page.html"
    program("simulate", EIGHT, "--html", str(page))
    step = rehearse.simulate(EIGHT)
    assert step.to_html() == page.read_text()
    shown = step._repr_html_()
    assert shown.startswith("<iframe") and "report-data" in shown and "<script" not in shown
    assert rehearse.list("gpus")._repr_html_().startswith("<pre>")


def test_a_plan_that_does_not_fit_raises_with_its_answer():
    with pytest.raises(rehearse.DoesNotFit) as refused:
        rehearse.memory(**FULL)
    error = refused.value
    assert error.exit_code == 3
    assert error.what.startswith("Does not fit: stage 0 needs")
    assert error.hint == "--set strategy.recompute=selective"
    assert error.result.fits is False
    assert error.result.memory[0].needed_bytes > error.result.memory[0].capacity_bytes
    assert rehearse.memory(**FULL, check=False).exit_code == 3


def test_a_check_that_fails_raises_with_its_answer():
    with pytest.raises(rehearse.CheckFailed, match="larger") as refused:
        rehearse.validate(measurements="tests/published/data/torchtitan.json", max_error="0.01%")
    assert refused.value.result.summary


def test_errors_are_one_tree_with_what_where_and_hint():
    with pytest.raises(rehearse.Error) as refused:
        rehearse.estimate(EIGHT, set={"strategy.tpp": 2})
    error = refused.value
    assert isinstance(error, rehearse.UsageError) and isinstance(error, ValueError)
    assert error.where == "--set strategy.tpp=2"
    assert "tp" in error.hint
    assert str(error) == f"{error.where}: {error.what}\n  hint: {error.hint}"
    for kind in (rehearse.CheckFailed, rehearse.DoesNotFit, rehearse.InternalError, rehearse.Unavailable, rehearse.UsageError):
        assert issubclass(kind, rehearse.Error)
    copied = pickle.loads(pickle.dumps(rehearse.UsageError("what", "where", "hint")))
    assert (copied.what, copied.where, copied.hint) == ("what", "where", "hint")


def test_what_the_module_has_not_is_unavailable():
    with pytest.raises(rehearse.Unavailable, match="only simulates"):
        rehearse.validate("scenarios/tiny_gpt2.json")
    assert not hasattr(rehearse, "run")
