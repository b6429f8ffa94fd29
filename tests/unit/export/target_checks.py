"""Each target's files, read by real parsers and held to the scenario. `where` is the folder, `s` the resolved scenario."""
import ast
import json
import os
import re
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree

import yaml

import known_targets
import start_rules
from common import both_ways, expect, flatten, folder, run, same, text


TORCHRUN = r"torchrun ((?:.|\\\n)*?)(?:\$|rehearse|\n)"


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
    for problem in known_targets.unknown_flags(found):
        expect("megatron", False, problem)
    strategy, training = s["strategy"], s["training"]
    for flag, value in (("--tensor-model-parallel-size", strategy["tp"]), ("--pipeline-model-parallel-size", strategy["pp"]), ("--context-parallel-size", strategy["cp"]),
                        ("--micro-batch-size", strategy["microbatch"]), ("--global-batch-size", training["global_batch"]), ("--seq-length", training["sequence_length"])):
        expect("megatron", same(found.get(flag, ""), str(value)), f"{flag} {found.get(flag)} != {value}")
    expect("megatron", ("--sequence-parallel" in found) == strategy["sequence_parallel"], "--sequence-parallel")
    if strategy["schedule"] == "interleaved_1f1b":
        layout = found.get("--pipeline-model-parallel-layout", "").strip("'")
        chunks = layout.count("|") + 1 if layout else int(found.get("--num-virtual-stages-per-pipeline-rank", 1)) * strategy["pp"]
        expect("megatron", chunks == strategy["virtual_stages"] * strategy["pp"], f"{chunks} chunks")
    expect("megatron", ("--use-distributed-optimizer" in found) == (strategy["zero_stage"] > 0), "--use-distributed-optimizer")
    told = "none" if "every_second_product" in strategy.get("recompute_modules", []) and strategy["recompute"] == "selective" else strategy["recompute"]
    expect("megatron", found.get("--recompute-granularity", "none") == told, "--recompute-granularity")

    with open(os.path.join(where, "pretrain.sh")) as f:
        script = f.read()
    found["(world)"] = int(re.search(r"NNODES:-(\d+)", script).group(1)) * int(re.search(r"GPUS_PER_NODE:-(\d+)", script).group(1))
    megatron_starts(found, script, s)
    return found


def megatron_starts(found, script, s):
    """What arguments.py asserts before it trains."""
    def number(flag, otherwise):
        return int(found.get(flag, otherwise))

    strategy = s["strategy"]
    tp, pp, cp, ep = (number(f"--{axis}-parallel-size", 1) for axis in ("tensor-model", "pipeline-model", "context", "expert-model"))
    torch_fsdp, megatron_fsdp, sharded = (flag in found for flag in ("--use-torch-fsdp2", "--use-megatron-fsdp", "--use-distributed-optimizer"))
    for what, good in (
            ("the world is a multiple of the axes", found["(world)"] % (tp * pp * cp) == 0),
            ("how long to train", ("--train-iters" in found) != ("--train-samples" in found)),
            ("torch FSDP2 with pipeline, experts, the distributed optimizer, tied embeddings or fp16",
             not torch_fsdp or pp == 1 and ep == 1 and not sharded and "--untie-embeddings-and-output-weights" in found and "--fp16" not in found),
            ("torch FSDP2 with fused accumulation", not torch_fsdp or "--no-gradient-accumulation-fusion" in found),
            ("Megatron FSDP's checkpoints", megatron_fsdp == (found.get("--ckpt-format") == "fsdp_dtensor")),
            ("Megatron FSDP's optimizers", not megatron_fsdp or found.get("--optimizer") in ("sgd", "adam")),
            ("early gathers without the distributed optimizer", "--overlap-param-gather" not in found or sharded and "--overlap-grad-reduce" in found),
            ("fp8 parameters that are not sharded", "--fp8-param-gather" not in found or sharded or torch_fsdp),
            ("replicas of shards without shards", "--num-distributed-optimizer-instances" not in found or sharded),
            ("overlap of tensor parallelism that is not sequence-parallel", "--tp-comm-overlap" not in found or "--sequence-parallel" in found),
            ("two precisions", not ("--bf16" in found and "--fp16" in found)),
            ("one way to interleave", ("--num-virtual-stages-per-pipeline-rank" in found) + ("--pipeline-model-parallel-layout" in found) <= 1),
            ("interleaved stages without overlap", "--no-overlap-p2p-communication" not in found or pp > 2),
            ("sequence over context parallelism", cp == 1 or number("--seq-length", 0) % (2 * cp) == 0),
            ("positions", number("--max-position-embeddings", 0) >= number("--seq-length", 0)),
            ("experts over ranks", ep == 1 or number("--num-experts", 0) % ep == 0),
            ("offloaded optimizer", "--optimizer-cpu-offload" not in found or "--use-precision-aware-optimizer" in found),
            ("graphs of layers that are recomputed whole", "--cuda-graph-impl" not in found or found.get("--recompute-granularity") != "full"
             or found["--cuda-graph-impl"] == "full_iteration" and "--no-check-for-nan-in-loss-and-grad" in found),
            ("precision-aware optimizers other than Adam", "--use-precision-aware-optimizer" not in found or found.get("--optimizer") == "adam"),
            ("recomputation of experts that are no grouped product", "moe_act" not in found.get("--recompute-modules", "").split() or "--moe-grouped-gemm" in found),
            ("recomputation with delayed scales", found.get("--fp8-recipe") != "delayed" or not {"moe_act", "layernorm"} & set(found.get("--recompute-modules", "").split())),
            ("experts beside tensor parallelism that is not sequence-parallel", "--num-experts" not in found or tp == 1 or "--sequence-parallel" in found),
            ("biases that balance experts", "--moe-router-enable-expert-bias" not in found or found.get("--moe-router-score-function") == "sigmoid"),
            ("one expert for a token without softmax before", found.get("--moe-router-topk") != "1" or found.get("--moe-router-score-function") == "sigmoid"
             or "--moe-router-pre-softmax" in found or "--num-experts" not in found),
            ("latent attention with query groups", "--multi-latent-attention" not in found or "--group-query-attention" not in found),
            ("a method of selective recomputation", found.get("--recompute-granularity") != "selective" or "--recompute-method" not in found),
            ("full recomputation without a method", found.get("--recompute-granularity") != "full" or "--recompute-method" in found),
            ("layers that stages cannot share", any(f in found for f in ("--decoder-first-pipeline-num-layers", "--pipeline-model-parallel-layout")) or number("--num-layers", 0) % pp == 0),
            ("CUDA_DEVICE_MAX_CONNECTIONS",
             ("export CUDA_DEVICE_MAX_CONNECTIONS=1\n" in script) == ((strategy["tp"] > 1 or strategy["cp"] > 1) and not torch_fsdp and not megatron_fsdp and before_blackwell(s)))):
        expect("megatron", good, what)


def before_blackwell(s):
    return not any("b200" in m or "gb200" in m or "b300" in m for m, _ in machines(s))


def torchtitan(where, report, s):
    with open(os.path.join(where, "train.toml"), "rb") as f:
        flat = list(flatten(tomllib.load(f)))
    for problem in known_targets.unknown_keys("torchtitan", flat):
        expect("torchtitan", False, problem)
    found = {k: text(v) for k, v in flat}
    both_ways("torchtitan", report, found)
    strategy, training = s["strategy"], s["training"]
    for flag, value in (("parallelism.tensor_parallel_degree", strategy["tp"]), ("parallelism.pipeline_parallel_degree", strategy["pp"]), ("training.seq_len", training["sequence_length"]), ("training.global_batch_size", training["global_batch"])):
        expect("torchtitan", same(found[flag], str(value)), f"{flag} {found[flag]} != {value}")
    shards = int(found.get("parallelism.data_parallel_shard_degree", 1))
    expect("torchtitan", shards * strategy["cp"] * strategy["tp"] % int(found.get("parallelism.expert_parallel_degree", 1)) == 0, "ep does not divide shards * cp * tp")
    for what, good in start_rules.torchtitan(found, dict(s, **{"(ranks)": known_targets.product(strategy), "(layers)": layers_of(s)})):
        expect("torchtitan", good, what)
    whole_model("torchtitan", dict(flat).get(known_targets.PARTS), s, "output")
    ways = int(found["parallelism.data_parallel_replicate_degree"])
    if "parallelism.data_parallel_shard_degree" in found:
        expect("torchtitan", ways * int(found["parallelism.data_parallel_shard_degree"]) == strategy["dp"], "replicate * shard != dp")
    return found


def called(node):
    """`Name(...)` or `Name.Config(...)`: the name, and its arguments by keyword."""
    name = node.func.value.id if isinstance(node.func, ast.Attribute) else node.func.id
    return name, {k.arg: k.value for k in node.keywords}


def settings_in_python(tree):
    """Places and values in the Trainer.Config that plan() returns, as ast reads them."""
    plan = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "plan")
    (_, registry), model = called(plan.body[0].value), plan.body[0].value.args[0].value
    out = {"model_spec.flavor": model}
    if "converters" in registry:
        out["model_spec.converters"] = called(registry["converters"].elts[0])[0]
    for name, value in called(plan.body[1].value)[1].items():
        if name == "activation_checkpoint":
            out[name] = "None" if isinstance(value, ast.Constant) else called(value)[0]
        elif name not in ("model_spec", "loss", "dataloader"):
            if name == "optimizer":
                out["optimizer.name"] = {"default_adamw": "AdamW"}[called(value)[0]]
            out.update({f"{name}.{k}": ast.literal_eval(v) for k, v in called(value)[1].items()})
    return out


def torchtitan_python(where, report, s):
    with open(os.path.join(where, "plan.py")) as f:
        script = f.read()
    flat = settings_in_python(ast.parse(script))
    told = {x["flag"] for x in report["settings"]}
    flat = {k: v for k, v in flat.items() if k in told or k not in ("optimizer.name", "model_spec.flavor", "activation_checkpoint")}
    for problem in known_targets.unknown_keys("torchtitan_python", flat.items()):
        expect("torchtitan_python", False, problem)
    found = {k: text(v) for k, v in flat.items()}
    both_ways("torchtitan_python", report, found)
    whole_model("torchtitan_python", flat.get(known_targets.PARTS), s, "lm_head")
    for what, good in start_rules.torchtitan_python(flat, dict(s, **{"(ranks)": known_targets.product(s["strategy"]), "(layers)": layers_of(s)})):
        expect("torchtitan_python", good, what)
    return found


def whole_model(target, parts, s, head):
    """Parts of a pipeline hold every module once, in order, as many layers each as the scenario says."""
    if parts is None:
        return
    names = [name for part in parts for name in part]
    expect(target, names == ["tok_embeddings", *(f"layers.{k}" for k in range(layers_of(s))), "norm", head], f"modules {names}")
    stages = s["strategy"]["pp"] * s["strategy"]["virtual_stages"]
    shares = [sum(name.startswith("layers.") for name in part) for part in parts]
    stated, balanced = s["strategy"].get("layers_per_stage"), s["strategy"].get("balance", "none") != "none"
    expect(target, len(parts) == stages and (shares == stated if stated else balanced or max(shares) - min(shares) <= 1), f"shares {shares}")


def deepspeed(where, report, s):
    with open(os.path.join(where, "ds_config.json")) as f:
        config = json.load(f)
    for problem in known_targets.unknown_keys("deepspeed", flatten(config)):
        expect("deepspeed", False, problem)
    found = {k: text(v) for k, v in flatten(config)}
    both_ways("deepspeed", report, found)
    for what, good in start_rules.deepspeed(config, dict(s, **{"(ranks)": known_targets.product(s["strategy"])})):
        expect("deepspeed", good, what)
    return found


def accelerate(where, report, s):
    """The file is read as ClusterConfig, the arguments as HfArgumentParser does; the shell names both."""
    with open(os.path.join(where, "accelerate.yaml")) as f:
        config = yaml.safe_load(f)
    with open(os.path.join(where, "training_args.json")) as f:
        arguments = json.load(f)
    expect("accelerate", not config.keys() & arguments.keys(), "a name in both files")
    for problem in known_targets.unknown_keys("accelerate", [*flatten(config), *flatten(arguments)]):
        expect("accelerate", False, problem)
    found = {k: text(v) for k, v in [*flatten(config), *flatten(arguments)]}
    both_ways("accelerate", report, found)
    with open(os.path.join(where, "launch.sh")) as f:
        script = f.read()
    expect("accelerate", subprocess.run(["bash", "-n", os.path.join(where, "launch.sh")]).returncode == 0, "bash cannot read it")
    unknown_options(script, "accelerate launch", r"accelerate launch ((?:.|\\\n)*?)\"\$\{TRAIN")
    expect("accelerate", ("--main_process_ip" in script) == (config["num_machines"] > 1), "several machines have to find each other")
    for what, good in start_rules.accelerate(config, arguments, dict(s, **{"(ranks)": known_targets.product(s["strategy"])})):
        expect("accelerate", good, what)
    return found


def pytorch_fsdp(where, report, s, version):
    """The module is Python that compiles, the arguments are those of the wrappers, and the shell reads its script."""
    with open(os.path.join(where, "fsdp.json")) as f:
        flat = list(flatten(json.load(f)))
    with open(os.path.join(where, "fsdp.py")) as f:
        tree = ast.parse(f.read())
    name = f"fsdp{version}"
    expect(name, any(isinstance(n, ast.FunctionDef) and n.name == "shard" for n in tree.body), "no function shard")
    for problem in known_targets.unknown_keys(name, flat):
        expect(name, False, problem)
    found = {k: text(v) for k, v in flat}
    both_ways(name, report, found)
    strategy = s["strategy"]
    expect(name, strategy["tp"] * strategy["pp"] * strategy["cp"] == 1, "an axis besides replicas")
    expect(name, int(found["mesh.dp_replicate"]) * int(found["mesh.dp_shard"]) == strategy["dp"], "the mesh holds other ranks")
    expect(name, s["training"]["global_batch"] % (int(found["batch.per_rank"]) * strategy["dp"]) == 0, "no whole steps of accumulation")
    hybrid = found.get("FullyShardedDataParallel.sharding_strategy", "").lstrip("_").startswith("HYBRID")
    expect(name, version == 2 or hybrid == (strategy["dp_replicate"] > 1), "a strategy for another mesh")
    with open(os.path.join(where, "launch.sh")) as f:
        script = f.read()
    expect(name, subprocess.run(["bash", "-n", os.path.join(where, "launch.sh")]).returncode == 0, "bash cannot read it")
    unknown_options(script, "torchrun", TORCHRUN)
    return found


def fsdp1(where, report, s):
    return pytorch_fsdp(where, report, s, 1)


def fsdp2(where, report, s):
    return pytorch_fsdp(where, report, s, 2)


def layers_of(s):
    """Layers of the scenario's network; 0 where its file counts none."""
    config = s["model"]
    if isinstance(config, str):
        path = config if config.endswith(".json") else os.path.join(folder, "models", config, "config.json")
        with open(path) as f:
            config = json.load(f)
    return config.get("num_hidden_layers", config.get("n_layer", 0))


def machines(s):
    cluster = s["cluster"]
    if isinstance(cluster, str):
        with open(os.path.join(folder, "..", "topologies", "clusters", cluster + ".json")) as f:
            cluster = json.load(f)
    return [(p["machine"], p["nodes"]) for p in cluster["parts"]] if "parts" in cluster else [(cluster["machine"], cluster["nodes"])]


def unknown_options(script, program, pattern):
    """Options of `program` where the pattern finds them."""
    for line in re.findall(pattern, script):
        for option in re.findall(r"(?:^|\s)(--[a-z_-]+)", line):
            expect(program, option in known_targets.known("launchers")[program], f"{option} is no option")


def torchrun(where, report, s):
    with open(os.path.join(where, "torchrun.sh")) as f:
        script = f.read()
    expect("torchrun", subprocess.run(["bash", "-n", os.path.join(where, "torchrun.sh")]).returncode == 0, "bash cannot read it")
    unknown_options(script, "torchrun", TORCHRUN)
    expect("torchrun", f"NNODES:-{sum(n for _, n in machines(s))}" in script, "nodes")


def slurm(where, report, s):
    with open(os.path.join(where, "job.sbatch")) as f:
        script = f.read()
    expect("slurm", subprocess.run(["bash", "-n", os.path.join(where, "job.sbatch")]).returncode == 0, "bash cannot read it")
    unknown_options(script, "sbatch", r"#SBATCH (.*)")
    unknown_options(script, "srun", r"exec srun (.*?) \"\$@\"")
    nodes = [int(line.split("=")[1]) for line in script.split("\n") if line.startswith("#SBATCH --nodes=")]
    expect("slurm", nodes == [n for _, n in machines(s)], f"{nodes}")
    expect("slurm", script.count("#SBATCH hetjob") == len(nodes) - 1, "components of a heterogeneous job")


def kubernetes(where, report, s):
    with open(os.path.join(where, "jobset.yaml")) as f:
        config, jobset = list(yaml.safe_load_all(f))
    expect("kubernetes", (config["apiVersion"], config["kind"]) == ("v1", "ConfigMap") and all(isinstance(v, str) for v in config["data"].values()), "ConfigMap")
    told, strategy = json.loads(config["data"]["scenario.json"])["strategy"], dict(s["strategy"])
    if strategy.get("devices"):  # A file of its own, beside it.
        name = os.path.basename(strategy["devices"])
        strategy["devices"] = "./" + name
        expect("kubernetes", name in config["data"], "the list of devices is not in the ConfigMap")
    expect("kubernetes", told == strategy, "the scenario in the ConfigMap is another")
    expect("kubernetes", (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet"), "kind")
    jobs = jobset["spec"]["replicatedJobs"]
    expect("kubernetes", [j["template"]["spec"]["completions"] for j in jobs] == [n for _, n in machines(s)], "completions")
    for job in jobs:
        spec = job["template"]["spec"]
        expect("kubernetes", spec["parallelism"] == spec["completions"] and spec["completionMode"] == "Indexed", "every index at once")
        pod(spec["template"]["spec"])
    custom = [jobset]
    if len(jobs) == 1:
        with open(os.path.join(where, "trainjob.yaml")) as f:
            custom.append(list(yaml.safe_load_all(f))[1])
        trainer = custom[-1]["spec"]["trainer"]
        expect("kubernetes", (custom[-1]["apiVersion"], custom[-1]["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob"), "kind")
        expect("kubernetes", trainer["numNodes"] == machines(s)[0][1], "nodes")
        same_pod = jobs[0]["template"]["spec"]["template"]["spec"]
        expect("kubernetes", trainer["resourcesPerNode"] == same_pod["containers"][0]["resources"], "resources of a node")
        patched = custom[-1]["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
        expect("kubernetes", patched["template"]["spec"]["template"]["spec"].get("nodeSelector") == same_pod.get("nodeSelector"), "node selector")
    for document in custom:
        for problem in known_targets.schema_errors(document):
            expect("kubernetes", False, problem)


def pod(spec):
    """What the schema does not say: equal requests and limits of devices, mounts of volumes that are there."""
    limits = spec["containers"][0]["resources"]["limits"]
    expect("pod", ("nvidia.com/gpu" in limits) == ("nvidia.com/gpu.product" in spec.get("nodeSelector", {})), "a selector without GPUs, or GPUs without one")
    volumes = {v["name"] for v in spec["volumes"]}
    for c in spec["containers"]:
        resources = c["resources"]
        expect("pod", resources["requests"] == resources["limits"], "devices can only be requested as they are limited")
        expect("pod", resources["requests"]["memory"].endswith("Gi") and all(int(n) > 0 for r, n in resources["requests"].items() if "/" in r), "requests")
        expect("pod", {m["name"] for m in c["volumeMounts"]} <= volumes, "mounts of volumes that are not there")
        for line in c["command"]:
            unknown_options(line, "torchrun", TORCHRUN)


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
