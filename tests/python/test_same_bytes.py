"""The module and the program answer with the same bytes, refuse with the same words, and end alike."""
import json
import pathlib
import warnings

import pytest
import rehearse
from conftest import SOURCE

SCENARIOS = sorted(p.relative_to(SOURCE).as_posix() for p in (SOURCE / "scenarios").glob("*.json"))
BAD = sorted(p.relative_to(SOURCE).as_posix() for p in (SOURCE / "tests/golden/bad").glob("*.json"))
LESSONS = sorted(p.parent.name for p in (SOURCE / "scenarios/lessons").glob("*/lesson.json"))
FLEETS = sorted(p.relative_to(SOURCE).as_posix() for p in (SOURCE / "scenarios/fleets").glob("*.json"))
LARGE = ("16384", "102400")  # GPUs of scenarios whose play takes long.
QUICK_SEARCH = {"fix": {"tp": 2}, "simulate": 2, "jobs": 2}

# Verb, arguments by position, options by name; as the command line has them and as Python does.
OTHERS = [
    ("search", ["scenarios/llama3_8b_h100_8.json"], QUICK_SEARCH),
    ("search", ["scenarios/mixtral_8x7b_h100_64.json"], {"fix": {"tp": 1, "pp": 4, "ep": 8, "cp": 1, "microbatch": 1, "schedule": "1f1b"}, "simulate": 0, "objective": "memory"}),
    ("sweep", ["scenarios/llama3_8b_h100_8.json"], {"vary": {"strategy.tp": [1, 2, 4, 8], "microbatch": [1, 2]}, "jobs": 2}),
    ("sweep", ["scenarios/gpt2_v100.json"], {"vary": {"strategy.recompute": ["none", "full"]}, "backend": "analytic"}),
    ("sweep", ["scenarios/llama3_8b_h100_8.json"], {}),
    ("plan", ["scenarios/plans/llama3_8b_two_weeks.json"], {}),
    ("plan", ["scenarios/plans/llama3_8b_two_weeks.json"], {"set": {"deadline_days": 1}, "odds": 0.8}),
    ("validate", [], {"measurements": ["tests/published/data/torchtitan.json"]}),
    ("validate", [], {"measurements": ["tests/published/data/torchtitan.json"], "max_error": "0.01%"}),
    ("validate", [], {"measurements": ["tests/published/data/torchtitan.json"], "summary": True}),
    ("validate", [], {"measurements": ["nothing.json"]}),
    ("validate", [], {}),
    ("fleet", ["scenarios/fleets/two_teams.json"], {"against": {"policy.quota": "borrowing"}}),
    ("fleet", ["scenarios/fleets/two_teams.json"], {"set": {"policy.rule": "nonsense"}}),
    ("compare", ["scenarios/llama3_8b_h100_8.json", "scenarios/llama3_8b_h100_8.json@strategy.tp=8"], {}),
    ("compare", ["scenarios/llama3_8b_h100_8.json"], {}),
    ("memory", ["scenarios/llama3_8b_h100_8.json"], {"over_time": True}),
    ("memory", ["scenarios/gpt3_175b_a100_64.json"], {"set": {"strategy.recompute": "none"}}),
    ("memory", ["scenarios/gpt3_175b_a100_64.json"], {"dry_run": True}),
    ("estimate", ["scenarios/gpt3_175b_a100_64.json"], {"set": {"strategy.recompute": "none"}, "despite_memory": True}),
    ("estimate", ["scenarios/nothing.json"], {}),
    ("estimate", ["scenarios"], {}),
    ("estimate", ["scenarios/llama3_8b_h100_8.json"], {"set": ["strategy.microbacth=2"]}),
    ("estimate", ["scenarios/llama3_8b_h100_8.json"], {"set": {"strategy.bucket": "100MB", "strategy.zero_stage": 1}}),
    ("simulate", ["scenarios/llama3_8b_h100_8.json"], {"backend": "nonsense"}),
    ("simulate", ["scenarios/llama3_8b_h100_8.json"], {"what_if": ["straggler=5:1.2"], "no_fold": True}),
    ("simulate", ["scenarios/llama3_8b_h100_8.json", "scenarios/llama3_8b_h100_8.json"], {"together": True, "interleave": True}),
    ("simulate", ["scenarios/llama3_8b_h100_8.json", "scenarios/llama3_8b_h100_8.json"], {}),
    ("lesson", [], {}),
    ("lesson", ["nonsense"], {}),
    ("replay", ["goyal_p100"], {}),
    ("list", ["models"], {}),
    ("list", ["nonsense"], {}),
    ("topology", ["show", "dgx_a100_80gb"], {}),
    ("collectives", [], {"cluster": "dgx_h100", "op": "all_gather", "minbytes": "1M", "maxbytes": "64M"}),
]  # fmt: skip


def words_of(option, value):
    """An option as people type it."""
    name = "--" + option.replace("_", "-")
    if value is True:
        return [name]
    if isinstance(value, dict):
        value = [f"{k}={','.join(map(str, v)) if isinstance(v, list) else v}" for k, v in value.items()]
    return [w for v in (value if isinstance(value, list) else [value]) for w in (name, str(v))]


def agree(program, verb, positional, options):
    words = [verb, *positional, *(w for k, v in options.items() for w in words_of(k, v)), "--format", "json"]
    said = program(*words)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = getattr(rehearse, verb)(*positional, **options, check=False)
        except rehearse.Error as e:
            assert said.code == e.exit_code, words
            assert said.err.endswith(f"error: {e}\n"), words
            assert said.out == ""
            return
    assert result.to_json() == said.out, words
    assert result.exit_code == said.code, words
    assert result.notes == said.err.splitlines(), words
    assert [str(w.message) for w in heard] == [n[len("note: ") :] for n in result.notes if n.startswith("note: ")]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_estimated_alike(program, scenario):
    agree(program, "estimate", [scenario], {})
    agree(program, "memory", [scenario], {})


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if not any(n in s for n in LARGE)])
def test_every_scenario_is_played_alike(program, scenario):
    agree(program, "simulate", [scenario], {})


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_is_taught_alike(program, lesson):
    agree(program, "lesson", [lesson], {})


@pytest.mark.parametrize("fleet", FLEETS)
def test_every_fleet_is_played_alike(program, fleet):
    agree(program, "fleet", [fleet], {})


@pytest.mark.parametrize("scenario", BAD)
def test_every_bad_scenario_is_refused_alike(program, scenario):
    agree(program, "estimate", [scenario], {})


@pytest.mark.parametrize("verb, positional, options", OTHERS, ids=lambda v: str(v)[:60])
def test_other_verbs_answer_alike(program, verb, positional, options):
    agree(program, verb, positional, options)


@pytest.mark.parametrize("scenario", ["scenarios/llama3_8b_h100_8.json", "scenarios/gpt3_175b_a100_1024.json"])
def test_a_dictionary_is_the_text_of_its_scenario(program, monkeypatch, scenario):
    given = json.loads(pathlib.Path(scenario).read_text())
    step = rehearse.simulate(scenario).step_time_s
    monkeypatch.chdir(SOURCE / pathlib.Path(scenario).parent)  # Where the paths in it lead from.
    said = program("simulate", json.dumps(given), "--format", "json")
    assert said.code == 0
    assert rehearse.simulate(given).to_json() == said.out
    assert rehearse.simulate(given).step_time_s == step


@pytest.mark.parametrize("verb, file", [("plan", "scenarios/plans/llama3_8b_two_weeks.json"), ("fleet", "scenarios/fleets/two_teams.json")])
def test_plans_and_fleets_may_be_dictionaries(program, monkeypatch, verb, file):
    given = json.loads((SOURCE / file).read_text())
    monkeypatch.chdir(SOURCE / pathlib.Path(file).parent)
    said = program(verb, json.dumps(given), "--format", "json")
    result = getattr(rehearse, verb)(given, check=False)
    assert (result.to_json(), result.exit_code) == (said.out, said.code)


def test_a_dictionary_that_is_wrong_is_refused_alike(program):
    given = {"schema": "rehearse/scenario/v1", "model": "llama3_8b", "cluster": "dgx_h100", "strategy": {"tp": "two"}}
    said = program("estimate", json.dumps(given))
    with pytest.raises(rehearse.UsageError) as refused:
        rehearse.estimate(given)
    assert said.err == f"error: {refused.value}\n"
    assert refused.value.where == "the text given: /strategy/tp"
