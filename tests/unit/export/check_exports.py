"""Exports every target of every scenario given, reads the files with real parsers, and holds them to the scenario, field by field, both ways.

usage: check_exports.py REHEARSE FOLDER_OF_SCENARIOS NAME...
"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

try:
    import tomllib
except ImportError:
    tomllib = None
try:
    import yaml
except ImportError:
    yaml = None

rehearse, folder, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
failures = []


def expect(what, good, detail=""):
    if not good:
        failures.append(f"{what}: {detail}")


def run(*words):
    done = subprocess.run([rehearse, *words], capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"{' '.join(words)}: {done.stderr.strip()}")
        return None
    return done.stdout


def flatten(value, prefix=""):
    if isinstance(value, dict) and value:
        for key, v in value.items():
            yield from flatten(v, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " ".join(text(v) for v in value)
    return str(value)


def same(a, b):
    """Equal as text, or as numbers."""
    if a == b:
        return True
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def both_ways(what, report, found):
    """Every flag of the report stands in the file with its value, and every flag of the file is in the report."""
    told = {s["flag"]: s["text"] for s in report["settings"] if s["flag"]}
    for flag, value in told.items():
        expect(what, flag in found, f"{flag} is told of and not written")
        if flag in found:
            expect(what, same(found[flag], value), f"{flag} is {found[flag]}, told {value}")
    for flag in found:
        expect(what, flag in told, f"{flag} is written and not told of")


def every_key(what, report, scenario, keys):
    """A key of the scenario that is not at its default became a flag, or is listed as left out."""
    accounted = {s["key"] for s in report["settings"]} | {item["key"] for item in report["left_out"]}
    silent = {"strategy.placement", "strategy.dp", "strategy.dp_shard", "strategy.dp_replicate", "strategy.sequence_parallel", "strategy.virtual_stages", "strategy.schedule", "strategy.recompute_modules",
              "strategy.fsdp.enabled", "strategy.zero_stage", "strategy.scatter_gather", "strategy.overlap.tp", "strategy.overlap.pp", "strategy.overlap.grad_reduce", "strategy.overlap.param_gather", "training.tokens"}
    for key, value in flatten(scenario):
        if key.split(".")[0] in ("schema", "model", "cluster", "input", "calibration", "collective_table") or key not in keys:
            continue
        if same(text(value), text(keys[key])) or key in accounted or key in silent:
            continue
        expect(what, False, f"{key} = {value} is neither a flag nor left out")


def defaults():
    out = {}
    for entry in json.loads(run("list", "keys", "--format", "json"))["entries"]:
        try:
            out[entry["key"]] = json.loads(entry["default"])
        except ValueError:
            out[entry["key"]] = None
    return out


def megatron(where, report, s):
    """The shell itself reads the script: torchrun is a stand-in that prints its arguments."""
    fake = os.path.join(where, "bin")
    os.makedirs(fake)
    with open(os.path.join(fake, "torchrun"), "w") as f:
        f.write("#!/usr/bin/env bash\nprintf '%s\\n' \"$@\"\n")
    os.chmod(os.path.join(fake, "torchrun"), 0o755)
    done = subprocess.run([os.path.join(where, "pretrain.sh")], capture_output=True, text=True, env={"PATH": fake + ":" + os.environ["PATH"], "MEGATRON_PATH": "/m"})
    expect("megatron", done.returncode == 0, done.stderr)
    words = done.stdout.split("\n")[:-1]
    words = words[words.index("/m/pretrain_gpt.py") + 1:]
    found = {}
    for word in words:
        if word.startswith("--"):
            found[word], last = "", word
        else:
            found[last] = (found[last] + " " + word).strip()
    both_ways("megatron", report, found)
    strategy, training = s["strategy"], s["training"]
    for flag, value in (("--tensor-model-parallel-size", strategy["tp"]), ("--pipeline-model-parallel-size", strategy["pp"]), ("--context-parallel-size", strategy["cp"]),
                        ("--micro-batch-size", strategy["microbatch"]), ("--global-batch-size", training["global_batch"]), ("--seq-length", training["sequence_length"])):
        expect("megatron", same(found.get(flag, ""), str(value)), f"{flag} {found.get(flag)} != {value}")
    expect("megatron", ("--sequence-parallel" in found) == strategy["sequence_parallel"], "--sequence-parallel")
    expect("megatron", found.get("--num-virtual-stages-per-pipeline-rank", "1") == str(strategy["virtual_stages"]) or strategy["schedule"] != "interleaved_1f1b", "virtual stages")
    expect("megatron", ("--use-distributed-optimizer" in found) == (strategy["zero_stage"] > 0), "--use-distributed-optimizer")
    expect("megatron", found.get("--recompute-granularity", "none") == strategy["recompute"], "--recompute-granularity")


    # What arguments.py asserts before it trains.
    fsdp = "--use-torch-fsdp2" in found or "--use-megatron-fsdp" in found
    expect("megatron", ("--train-iters" in found) != ("--train-samples" in found), "how long to train")
    expect("megatron", "--use-torch-fsdp2" not in found or "--no-gradient-accumulation-fusion" in found, "torch FSDP2 with fused accumulation")
    expect("megatron", "--use-megatron-fsdp" not in found or found.get("--ckpt-format") == "fsdp_dtensor", "Megatron FSDP's checkpoints")
    with open(os.path.join(where, "pretrain.sh")) as f:
        connections = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" in f.read()
    expect("megatron", connections == ((strategy["tp"] > 1 or strategy["cp"] > 1) and not fsdp), "CUDA_DEVICE_MAX_CONNECTIONS")


def torchtitan(where, report, s):
    if tomllib is None:
        return
    with open(os.path.join(where, "train.toml"), "rb") as f:
        found = {k: text(v) for k, v in flatten(tomllib.load(f))}
    both_ways("torchtitan", report, found)
    strategy, training = s["strategy"], s["training"]
    for flag, value in (("parallelism.tensor_parallel_degree", strategy["tp"]), ("parallelism.pipeline_parallel_degree", strategy["pp"]), ("training.seq_len", training["sequence_length"]), ("training.global_batch_size", training["global_batch"])):
        expect("torchtitan", same(found[flag], str(value)), f"{flag} {found[flag]} != {value}")
    shards = int(found.get("parallelism.data_parallel_shard_degree", 1))
    expect("torchtitan", shards * strategy["cp"] * strategy["tp"] % int(found.get("parallelism.expert_parallel_degree", 1)) == 0, "ep does not divide shards * cp * tp")
    ways = int(found["parallelism.data_parallel_replicate_degree"])
    if "parallelism.data_parallel_shard_degree" in found:
        expect("torchtitan", ways * int(found["parallelism.data_parallel_shard_degree"]) == strategy["dp"], "replicate * shard != dp")


def deepspeed(where, report, s):
    with open(os.path.join(where, "ds_config.json")) as f:
        config = json.load(f)
    both_ways("deepspeed", report, {k: text(v) for k, v in flatten(config)})
    # What DeepSpeed itself asserts when it starts.
    product = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * s["strategy"]["dp"]
    expect("deepspeed", config["train_batch_size"] == product == s["training"]["global_batch"], f"{config['train_batch_size']} != {product}")
    expect("deepspeed", not (config["bf16"]["enabled"] and config["fp16"]["enabled"]) if "bf16" in config else True, "two precisions")


def machines(s):
    cluster = s["cluster"]
    return [(p["machine"], p["nodes"]) for p in cluster["parts"]] if "parts" in cluster else [(cluster["machine"], cluster["nodes"])]


def torchrun(where, report, s):
    with open(os.path.join(where, "torchrun.sh")) as f:
        script = f.read()
    expect("torchrun", subprocess.run(["bash", "-n", os.path.join(where, "torchrun.sh")]).returncode == 0, "bash cannot read it")
    expect("torchrun", f"NNODES:-{sum(n for _, n in machines(s))}" in script, "nodes")


def slurm(where, report, s):
    with open(os.path.join(where, "job.sbatch")) as f:
        script = f.read()
    expect("slurm", subprocess.run(["bash", "-n", os.path.join(where, "job.sbatch")]).returncode == 0, "bash cannot read it")
    nodes = [int(line.split("=")[1]) for line in script.split("\n") if line.startswith("#SBATCH --nodes=")]
    expect("slurm", nodes == [n for _, n in machines(s)], f"{nodes}")
    expect("slurm", script.count("#SBATCH hetjob") == len(nodes) - 1, "components of a heterogeneous job")


def kubernetes(where, report, s):
    if yaml is None:
        return
    with open(os.path.join(where, "jobset.yaml")) as f:
        config, jobset = list(yaml.safe_load_all(f))
    expect("kubernetes", json.loads(config["data"]["scenario.json"])["strategy"] == s["strategy"], "the scenario in the ConfigMap is another")
    expect("kubernetes", (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet"), "kind")
    jobs = jobset["spec"]["replicatedJobs"]
    expect("kubernetes", [j["template"]["spec"]["completions"] for j in jobs] == [n for _, n in machines(s)], "completions")
    for job in jobs:
        spec = job["template"]["spec"]
        expect("kubernetes", spec["parallelism"] == spec["completions"] and spec["completionMode"] == "Indexed", "every index at once")
        pod(spec["template"]["spec"])
    if len(jobs) == 1:
        with open(os.path.join(where, "pytorchjob.yaml")) as f:
            job = list(yaml.safe_load_all(f))[1]
        replicas = job["spec"]["pytorchReplicaSpecs"]
        expect("kubernetes", sum(r["replicas"] for r in replicas.values()) == machines(s)[0][1], "replicas")
        for r in replicas.values():
            pod(r["template"]["spec"])


def pod(spec):
    """The parts of Kubernetes' own schema of a PodSpec that it uses: types, names, and equal requests and limits of GPUs."""
    expect("pod", set(spec) <= {"restartPolicy", "nodeSelector", "containers", "volumes"}, f"{sorted(spec)}")
    expect("pod", isinstance(spec["containers"], list) and spec["containers"] and spec["nodeSelector"]["nvidia.com/gpu.product"], "no container or selector")
    volumes = {v["name"] for v in spec["volumes"]}
    for c in spec["containers"]:
        resources = c["resources"]
        expect("pod", resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"], "GPUs can only be requested as they are limited")
        expect("pod", resources["requests"]["memory"].endswith("Gi") and int(resources["requests"]["nvidia.com/gpu"]) > 0, "requests")
        expect("pod", all(isinstance(w, str) for w in c["command"]) and all(isinstance(e["value"], str) for e in c.get("env", [])), "text where text is wanted")
        expect("pod", {m["name"] for m in c["volumeMounts"]} <= volumes, "mounts of volumes that are not there")


def simgrid(where, report, s):
    root = ElementTree.parse(os.path.join(where, "platform.xml")).getroot()
    zone = root.find("zone")
    links = {link.get("id") for link in zone.findall("link")}
    hosts = len(zone.findall("host"))
    expect("simgrid", len(zone.findall("route")) == hosts * (hosts - 1), "a route for each pair")
    expect("simgrid", all(c.get("id") in links for r in zone.findall("route") for c in r), "a route over a link that is not there")


def chakra(where, report, s):
    files = [f for f in os.listdir(where) if f.endswith(".et")]
    expect("chakra", files, "no file")
    done = run("import", "trace", os.path.join(where, sorted(files)[0]), "--format", "json")
    expect("chakra", done and sum(k["count"] for k in json.loads(done)["ranks"][0]["kernels"].values()) > 0, "nothing imports again")


for name in ("resnet50_v100_8.json", "dcgan_v100_8.json"):
    for target in ("megatron", "torchtitan"):
        with tempfile.TemporaryDirectory() as where:
            done = subprocess.run([rehearse, "export", os.path.join(folder, name), "--to", target, "-o", where], capture_output=True, text=True)
            expect(name, done.returncode == 2 and "decoder stacks" in done.stderr and not os.listdir(where), f"{target}: {done.returncode} {done.stderr}")
keys = defaults()
for name in names:
    path = os.path.join(folder, name)
    scenario = json.loads(run("simulate", path, "--dry-run"))
    for target in ("megatron", "torchtitan", "deepspeed", "torchrun", "slurm", "kubernetes", "simgrid", "chakra"):
        if target == "chakra" and name != names[0]:
            continue  # One plan's nodes are enough: tests/unit/export/test_export.cpp counts them.
        with tempfile.TemporaryDirectory() as where:
            out = run("export", path, "--to", target, "-o", where, "--format", "json")
            if out is None:
                continue
            report = json.loads(out)
            before = len(failures)
            for entry in os.listdir(where):
                with open(os.path.join(where, entry), "rb") as f:
                    expect(target, os.path.abspath(folder).encode() not in f.read(), f"{entry} holds a path of this machine")
            globals()[target](where, report, scenario)
            if target in ("megatron", "torchtitan", "deepspeed"):
                every_key(target, report, scenario, keys)
            failures[before:] = [f"{name}: {f}" for f in failures[before:]]
print("\n".join(failures) or "all exports agree")
sys.exit(1 if failures else 0)
