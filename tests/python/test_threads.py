"""The interpreter's lock is released while the core works, and signals are heard."""
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import rehearse
from conftest import SOURCE

LONG = "scenarios/llama3_405b_h100_16384.json"


@pytest.fixture(autouse=True)
def in_the_source_tree(monkeypatch):
    monkeypatch.chdir(SOURCE)


def test_other_threads_run_meanwhile():
    done, turns = threading.Event(), 0
    work = threading.Thread(target=lambda: (rehearse.estimate("scenarios/resnet50_p100_256.json"), done.set()))
    sys.setswitchinterval(10)  # Only a lock that is given back lets others run.
    try:
        work.start()
        while not done.is_set():
            turns += 1
            time.sleep(0.001)
    finally:
        sys.setswitchinterval(0.005)
    work.join()
    assert turns > 20


def test_threads_get_the_answers_of_one():
    alone = rehearse.simulate("scenarios/llama3_8b_h100_8.json").to_json()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(rehearse.simulate("scenarios/llama3_8b_h100_8.json").to_json())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [alone] * 4


CALLS = {
    "simulate": 'rehearse.simulate("scenarios/gpt3_175b_a100_16384.json", all_flows=True)',
    "search": 'rehearse.search("scenarios/gpt3_175b_a100_1024.json")',
    "sweep": 'rehearse.sweep("scenarios/resnet50_p100_256.json", vary={"training.global_batch": list(range(8192, 819200, 256))})',
    "plan": 'rehearse.plan("scenarios/plans/llama3_70b_60_days.json")',
    "validate": 'rehearse.validate(measurements=["tests/published/data/mosaicml_llm_foundry.json", "tests/published/data/mlperf_training.json"])',
    "compare": 'rehearse.compare(*["scenarios/gpt3_175b_a100_16384.json"] * 3, set={"strategy.recompute": "full"})',
}


@pytest.mark.parametrize("verb", CALLS)
def test_ctrl_c_is_heard_within_a_second(verb):
    script = f"""
        import time, rehearse
        print("begun", flush=True)
        try:
            {CALLS[verb]}
        except KeyboardInterrupt:
            print("heard", flush=True)
        else:
            print("done", flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as python:
        assert python.stdout.readline() == "begun\n"
        time.sleep(1.5)
        sent = time.monotonic()
        python.send_signal(signal.SIGINT)
        said = python.stdout.readline()
        took = time.monotonic() - sent
    assert said == "heard\n"
    print(f"{verb}: heard after {took:.2f} s")
    assert took < 1


def test_what_was_found_before_ctrl_c_is_kept():
    script = """
        import rehearse
        print("begun", flush=True)
        try:
            rehearse.search("scenarios/gpt3_175b_a100_1024.json")
        except KeyboardInterrupt as e:
            print(len(e.result.candidates), e.result.exit_code, flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as python:
        python.stdout.readline()
        time.sleep(3)
        python.send_signal(signal.SIGINT)
        plans, code = python.stdout.readline().split()
    assert int(plans) > 0 and code == "130"
