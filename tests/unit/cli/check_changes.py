"""What if a link, a GPU or a NIC is worse; memory over a step; a trace beside a simulation; parts of a search: each against figures worked out by hand.

usage: check_changes.py REHEARSE FOLDER_OF_SCENARIOS
"""
import os
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from command_line import Program

rehearse, folder = Program(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = []


def expect(what, got, wanted, tolerance=1e-6):
    if not abs(got - wanted) <= tolerance * abs(wanted):
        failures.append(f"{what}: {got}, worked out {wanted}")


def scenario(name):
    return os.path.join(folder, name)


def settings(**values):
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def what_if(*changes):
    return [word for change in changes for word in ("--what-if", change)]


def simulated(*words):
    """The answer without the bias that predictions are known to have: what is worked out by hand is the model's."""
    out = rehearse.ask("simulate", *words)
    bias = 1 + out["bias"]
    parts = {part: seconds / bias for part, seconds in out["breakdown"].items()}
    return {**out, "step_time_s": out["modelled_step_time_s"], "breakdown": parts}


def straggler():
    """Replicas that reduce once, after all kernels: the step gets longer by what the slow rank's kernels do, and by twice that at three times the time."""
    base = [scenario("gpt2_v100.json"), *settings(strategy__overlap__grad_reduce="false")]
    step = simulated(*base)
    kernels = sum(step["breakdown"][part] for part in ("matmul", "attention", "memory_bound", "loss", "optimizer"))
    for factor in (2, 3):
        slow = simulated(*base, *what_if(f"straggler=3:{factor}"))
        expect(f"a straggler of {factor}", slow["step_time_s"] - step["step_time_s"], (factor - 1) * kernels, 1e-4)
        if slow["slowest_rank"] != 3:
            failures.append(f"a straggler of {factor}: rank {slow['slowest_rank']} is called the slowest, not 3")


def links_and_nics():
    """Two stages on two nodes: stage 0 sends 1024 tokens of 768 16-bit numbers per microbatch, each GPU over its own NIC of 25 GB/s."""
    base = [scenario("gpt2_v100.json"), *settings(cluster__machine="dgx_a100_80gb", cluster__nodes=2, cluster__network="rail_hdr", strategy__pp=2, strategy__dp="auto",
                                                 strategy__dp_replicate="auto", strategy__overlap__grad_reduce="false", training__global_batch=8, strategy__microbatch=1)]
    wire = 1024 * 768 * 2 / 25e9

    def message(*changes):
        return simulated(*base, *what_if("link=node*/NIC*:0.01", *changes))["breakdown"]["exposed_pp"]

    full, half, quarter = message(), message("link=node*/NIC*:0.5"), message("link=node*/NIC*:0.25")
    slope = half - full  # Bytes over rate, once more.
    expect("a link at a quarter", quarter, full + 3 * slope)
    expect("bytes over the slow link's rate", slope, wire / 0.01, 0.05)  # NCCL reaches 0.95 of a wire or more.
    latency = full - slope
    # GPU 0 sends through GPU 1's NIC, which then carries two messages at once, and has no room left.
    expect("a NIC down", message("fail=nic:node0/NIC0"), latency + 2 * wire / 0.01)
    expect("another node's NIC", message("link=node1/NIC3*:1"), full)


def memory_over_time():
    """GPT-2 on one stage, 8 sequences of 1024 tokens: each layer of forward keeps s b h (34 + 5 a s / h) bytes (Korthikanti et al. 2022, eq. 1), and backward gives
    them back; weights, gradients and optimizer state stay."""
    curve = rehearse.ask("memory", scenario("gpt2_v100.json"), "--over-time")["curves"][0]
    points = curve["points"]
    layer = 1024 * 8 * 768 * (34 + 5 * 12 * 1024 / 768)
    by_layer = {(p["body"], p["block"]): p["after"] for p in points if p["microbatch"] == 0 and p["body"].startswith("layer.")}
    kept = [by_layer["layer.forward", b]["activations"] for b in range(1, 13)]
    for before, after in zip(kept, kept[1:]):
        expect("what a layer of forward keeps", after - before, layer, 1e-9)
    left = [by_layer["layer.backward", b]["activations"] for b in range(12, 0, -1)]
    for before, after in zip(left, left[1:]):
        expect("what a layer of backward gives back", before - after, layer, 1e-9)
    for part in ("weights", "gradients", "optimizer"):
        if len({p["after"][part] for p in points}) != 1:
            failures.append(f"{part} come and go over a step")
    expect("the curve's top", max(p["during_bytes"] for p in points), curve["peak_bytes"], 1e-9)


def compare_with_trace(where):
    """The trace of a step with a straggler beside the step without: seven of eight ranks wait for what it does longer before they reduce, and
    communication takes what it took."""
    plan, same_plan = [scenario("gpt2_v100.json"), *settings(strategy__overlap__grad_reduce="false")], scenario("gpt2_v100.json") + "@strategy.overlap.grad_reduce=false"
    trace = os.path.join(where, "trace.json")
    slow = simulated(*plan, *what_if("straggler=3:2"), "--no-fold", "--trace", trace, "--trace-ranks", "0-7")
    step = simulated(*plan)
    both = rehearse.ask("compare", trace, same_plan)
    late = sum(step["breakdown"][part] for part in ("matmul", "attention", "memory_bound", "loss"))
    waiting = {side: sum(v[side] for v in both["waiting"].values()) for side in ("traced_s", "simulated_s")}
    # Part of what is booked as the optimizer comes before its own, second reduction: the norm.
    if not late * 7 / 8 * 0.999 <= waiting["traced_s"] <= (late + step["breakdown"]["optimizer"]) * 7 / 8:
        failures.append(f"waiting for a straggler: {waiting['traced_s']}, worked out {late * 7 / 8} and a little")
    if not waiting["simulated_s"] < 1e-3 * waiting["traced_s"]:
        failures.append(f"equal ranks wait {waiting['simulated_s']} s for one another")
    for name, v in both["communication"].items():
        expect(f"{name} without waiting", v["traced_s"], v["simulated_s"], 0.01)
    expect("the step traced", both["step"]["traced_s"], slow["step_time_s"], 0.01)
    for side in ("traced_s", "simulated_s"):
        expect(f"classes of kernels, {side}", sum(v[side] for name, v in both["kernels"].items() if name != "all"), both["kernels"]["all"][side], 1e-9)
    expect("all kernels", both["kernels"]["all"]["simulated_s"], late + step["breakdown"]["optimizer"], 1e-3)


def parts_of_a_search(where):
    """Parts, in any order, put together: a sweep's points are those of the whole. A search passes over plans that lose against those it has seen, so that parts
    hold more of them, and parts may play others: the winner is the same, and so are the closed forms of every plan that both have."""
    whole, merged = in_parts(where, "sweep", scenario("pipeline_1f1b.json"), "--vary", "microbatch=1,2", "--vary", "schedule=1f1b,gpipe")
    if len(whole["points"]) != 4 or whole["points"] != merged["points"]:
        failures.append(f"sweep: {merged['points']} merged, {whole['points']} in one")
    whole, merged = in_parts(where, "search", scenario("tiny_gpt2.json"))
    figures = [{c["label"]: c["closed_form_step_time_s"] for c in answer["candidates"]} for answer in (whole, merged)]
    common = figures[0].keys() & figures[1].keys()
    if whole["candidates"][0] != merged["candidates"][0] or len(common) < 0.9 * len(figures[0]) or any(figures[0][label] != figures[1][label] for label in common):
        failures.append(f"search: {merged['candidates'][0]['label']} wins in parts, {whole['candidates'][0]['label']} in one; {len(common)} plans in both")


def in_parts(where, verb, *job):
    parts = [os.path.join(where, f"{verb}{i}.json") for i in (1, 2, 3)]
    for i, part in enumerate(parts, 1):
        rehearse.run(verb, *job, "--shard", f"{i}/3", "-o", part)
    return rehearse.ask(verb, *job), rehearse.ask("merge", *reversed(parts))


def main():
    straggler()
    links_and_nics()
    memory_over_time()
    with tempfile.TemporaryDirectory() as where:
        compare_with_trace(where)
        parts_of_a_search(where)
    print("\n".join(failures) or "all as worked out")
    sys.exit(1 if failures else 0)


main()
