"""What targets know, from data with its source (known/), and what they say without a flag of their own."""
import json
import os
import re

import jsonschema

from common import text

KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known")


def known(name):
    with open(os.path.join(KNOWN, name + ".json")) as f:
        return json.load(f)


def is_number(kind, word):
    return re.fullmatch(r"[-+]?\d+", word) is not None if kind == "int" else re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", word) is not None


def unknown_flags(found):
    """Megatron-LM's arguments that it would not take: unknown, without a value or with one too many, no number, no choice."""
    flags = known("megatron")["flags"]
    for flag, value in found.items():
        if flag not in flags:
            yield f"{flag} is no argument"
            continue
        rule, words = flags[flag], value.split() if value else []
        kind = rule.get("of") if rule["kind"] == "list" else rule["kind"]
        if rule["kind"] == "switch" and words:
            yield f"{flag} is a switch and gets {value}"
        elif rule["kind"] == "list" and not words or rule["kind"] not in ("switch", "list") and len(words) != 1:
            yield f"{flag} gets {len(words)} values"
        for word in words:
            if kind in ("int", "float") and not is_number(kind, word):
                yield f"{flag} gets {word}, which is no {kind}"
            if "choices" in rule and word not in rule["choices"]:
                yield f"{flag} gets {word}, none of {rule['choices']}"


TYPES = {"int": int, "float": (int, float), "float | int": (int, float), "str": str, "bool": bool, "list[str]": list, "list[float]": list, "list[list[str]]": list}


def unknown_keys(target, flat):
    """Keys of a configuration file that the target does not have, or has with another type. `flat` is dotted key and value."""
    keys = known(target)["keys"]
    for key, value in flat:
        rule = keys.get(key)
        if rule is None:
            yield f"{key} is no key"
        elif "choices" in rule and value not in rule["choices"]:
            yield f"{key} is {value!r}, none of {rule['choices']}"
        elif "type" in rule and (not isinstance(value, TYPES[rule["type"]]) or isinstance(value, bool) != (rule["type"] == "bool")):
            yield f"{key} is {value!r}, no {rule['type']}"


def schema_errors(document):
    """By the schema of the document's kind, a custom resource of Kubernetes with the pods in it."""
    validator = jsonschema.Draft7Validator(known(document["kind"].lower()))
    for e in validator.iter_errors(document):
        yield f"{document['kind']} /{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}"


def product(s):
    return s["dp"] * s["tp"] * s["pp"] * s["cp"]


# Keys that stand in the report without a flag: what must hold in the file (`f`: flags and their text) for the scenario `s` to be said by it.
IMPLIED = {
    "megatron": {
        "strategy.dp": lambda s, f: f["(world)"] == product(s["strategy"]),
        "strategy.dp_shard": lambda s, f: s["strategy"]["dp_shard"] * int(f.get("--num-distributed-optimizer-instances", 1)) == s["strategy"]["dp"] or "--use-torch-fsdp2" in f,
        "strategy.dp_replicate": lambda s, f: s["strategy"]["dp_shard"] == 1 or s["strategy"]["dp_replicate"] == 1,
        "strategy.virtual_stages": lambda s, f: int(f.get("--num-virtual-stages-per-pipeline-rank", 0)) == s["strategy"]["virtual_stages"]
        or f.get("--pipeline-model-parallel-layout", "").count("|") + 1 == s["strategy"]["pp"] * s["strategy"]["virtual_stages"],
        "strategy.schedule": lambda s, f: s["strategy"]["pp"] == 1 or s["strategy"]["schedule"] == "1f1b" or "--pipeline-model-parallel-layout" in f,
        "strategy.recompute_modules": lambda s, f: s["strategy"]["recompute"] != "selective" or f.get("--recompute-modules") == text(s["strategy"]["recompute_modules"]),
        "strategy.recompute_method": lambda s, f: f.get("--recompute-method") == s["strategy"]["recompute_method"],
        "strategy.recompute_layers": lambda s, f: f.get("--recompute-num-layers") == str(s["strategy"]["recompute_layers"]),
        "strategy.bucket": lambda s, f: "--overlap-grad-reduce" not in f,
        "strategy.ep": lambda s, f: "--num-experts" not in f,
        "strategy.etp": lambda s, f: "--num-experts" not in f,
        "strategy.overlap.param_gather": lambda s, f: s["strategy"]["dp"] == 1 or not s["strategy"]["overlap"]["param_gather"],
        "strategy.overlap.tp": lambda s, f: s["strategy"]["tp"] == 1,
        "strategy.overlap.pp": lambda s, f: s["strategy"]["virtual_stages"] == 1 or s["strategy"]["overlap"]["pp"],
        "strategy.placement": lambda s, f: axes_in_order(s) in (axes_of(s, "tp,cp,ep,dp,pp"), axes_of(s, "tp,cp,ep,pp,dp")),
        "training.gradient_dtype": lambda s, f: "--bf16" not in f or "--use-torch-fsdp2" in f,
        "training.precision": lambda s, f: s["training"]["precision"] == "fp32" and "--bf16" not in f and "--fp16" not in f,
        "training.fp8.recipe": lambda s, f: "--fp8-format" not in f,
        "training.fp8.parameters": lambda s, f: "--fp8-format" not in f,
    },
    "torchtitan": {
        "strategy.dp": lambda s, f: degrees(f) == s["strategy"]["dp"],
        "strategy.dp_shard": lambda s, f: degrees(f) == s["strategy"]["dp"],
        "strategy.dp_replicate": lambda s, f: degrees(f) == s["strategy"]["dp"],
        "strategy.fsdp.enabled": lambda s, f: int(f["parallelism.data_parallel_shard_degree"]) == s["strategy"]["dp_shard"],
        "strategy.zero_stage": lambda s, f: int(f["parallelism.data_parallel_shard_degree"]) == s["strategy"]["dp"],
        "strategy.sequence_parallel": lambda s, f: s["strategy"]["sequence_parallel"] and int(f["parallelism.tensor_parallel_degree"]) > 1 or s["strategy"]["tp"] == 1,
        "strategy.schedule": lambda s, f: s["strategy"]["pp"] == 1,
        "strategy.virtual_stages": lambda s, f: s["strategy"]["pp"] == 1 or PARTS in f,
        "strategy.layers_per_stage": lambda s, f: PARTS in f or s["strategy"]["pp"] == 1 or len(set(s["strategy"].get("layers_per_stage", []))) <= 1,
        "strategy.uneven_layers": lambda s, f: PARTS in f or s["strategy"]["pp"] == 1 or s["(layers)"] % (s["strategy"]["pp"] * s["strategy"]["virtual_stages"]) == 0,
        "strategy.ep": lambda s, f: s["strategy"]["ep"] == 1,
        "strategy.etp": lambda s, f: s["strategy"]["ep"] == 1,
        "training.fp8.parameters": lambda s, f: "model.converters" not in f,
        "training.tokens": lambda s, f: s["training"]["tokens"] == 0,
        "training.fp8.recipe": lambda s, f: "model.converters" not in f or f["model.converters"] == "quantize.linear.mx" and s["training"]["fp8"]["recipe"] == "mxfp8"
        or f.get("quantize.linear.float8.recipe_name", "tensorwise") == s["training"]["fp8"]["recipe"],
    },
    "torchtitan_python": {
        "strategy.layers_per_stage": lambda s, f: PARTS in f or s["strategy"]["pp"] == 1 or len(set(s["strategy"].get("layers_per_stage", []))) <= 1,
        "strategy.uneven_layers": lambda s, f: PARTS in f or s["strategy"]["pp"] == 1 or s["(layers)"] % (s["strategy"]["pp"] * s["strategy"]["virtual_stages"]) == 0,
        "strategy.ep": lambda s, f: s["strategy"]["ep"] == 1,
        "strategy.etp": lambda s, f: True,
        "strategy.dp_replicate": lambda s, f: python_shards(f)[0] * python_shards(f)[1] == s["strategy"]["dp"],
        "strategy.dp_shard": lambda s, f: python_shards(f)[1] == s["strategy"]["dp_shard"] or not s["strategy"]["fsdp"]["enabled"],
        "strategy.zero_stage": lambda s, f: python_shards(f)[1] == s["strategy"]["dp"],
        "strategy.fsdp.enabled": lambda s, f: python_shards(f)[1] == s["strategy"]["dp_shard"],
        "strategy.schedule": lambda s, f: s["strategy"]["pp"] == 1,
        "strategy.virtual_stages": lambda s, f: s["strategy"]["pp"] == 1 or PARTS in f or "parallelism.pipeline_parallel_layers_per_stage" in f,
        "strategy.context": lambda s, f: s["strategy"]["cp"] == 1 or s["strategy"]["context"] == "allgather",
        "training.fp8.recipe": lambda s, f: ("model_spec.converters" in f) == (s["training"]["precision"] == "fp8_mixed")
        and f.get("model_spec.converters", "").startswith("MX") == (s["training"]["precision"] == "fp8_mixed" and s["training"]["fp8"]["recipe"] == "mxfp8"),
        "training.fp8.parameters": lambda s, f: "model_spec.converters" not in f,
        "training.tokens": lambda s, f: s["training"]["tokens"] == 0,
    },
    "deepspeed": {
        "strategy.dp": lambda s, f: int(f["train_micro_batch_size_per_gpu"]) * int(f["gradient_accumulation_steps"]) * s["strategy"]["dp"] == s["training"]["global_batch"],
        "training.global_batch": lambda s, f: int(f["tensor_parallel.autotp_size"]) == s["strategy"]["tp"],
        "strategy.dp_shard": lambda s, f: divides_nothing(s) or int(f.get("zero_optimization.mics_shard_size", s["strategy"]["dp"])) == s["strategy"]["dp_shard"],
        "strategy.dp_replicate": lambda s, f: divides_nothing(s) or int(f.get("zero_optimization.mics_shard_size", s["strategy"]["dp_shard"])) * s["strategy"]["dp_replicate"] == s["strategy"]["dp"],
        "strategy.fsdp.enabled": lambda s, f: f["zero_optimization.stage"] == "3",
        "strategy.schedule": lambda s, f: s["strategy"]["pp"] == 1,
        "strategy.zero3.prefetch_bucket": lambda s, f: s["strategy"]["zero_stage"] != 3,
        "strategy.zero3.persistence_threshold": lambda s, f: s["strategy"]["zero_stage"] != 3,
        "training.gradient_dtype": lambda s, f: s["training"]["gradient_dtype"] == "model" or s["training"]["precision"] == "fp32",
    },
    **{
        target: {
            "strategy.dp_replicate": lambda s, f: int(f["mesh.dp_replicate"]) == s["strategy"]["dp_replicate"],
            "strategy.dp_shard": lambda s, f: int(f["mesh.dp_shard"]) == s["strategy"]["dp_shard"],
            "strategy.fsdp.enabled": lambda s, f: "mesh.dp_shard" in f,
            "strategy.fsdp.prefetch_backward": lambda s, f: s["strategy"]["fsdp"]["prefetch_backward"] == 1,
            "strategy.fsdp.limit_all_gathers": lambda s, f: s["strategy"]["fsdp"]["limit_all_gathers"],
            "strategy.offload_parameters": lambda s, f: any(k.endswith("cpu_offload") for k in f),
            "strategy.bucket": lambda s, f: True,
            "strategy.overlap.grad_reduce": lambda s, f: True,
            "training.gradient_dtype": lambda s, f: {"float32": "fp32"}.get(next(v for k, v in f.items() if k.endswith("reduce_dtype")), "model")
            == (s["training"]["gradient_dtype"] if s["training"]["precision"] != "fp32" else "fp32"),
            "training.tokens": lambda s, f: s["training"]["tokens"] == 0,
        }
        for target in ("fsdp1", "fsdp2")
    },
    "accelerate": {
        "strategy.cp": lambda s, f: int(f.get(SIZE + "cp_size", 1)) * int(f.get(SIZE + "sp_size", 1)) == s["strategy"]["cp"],
        "strategy.context": lambda s, f: s["strategy"]["cp"] == 1 or s["strategy"]["context"] == "ulysses" and int(f[SIZE + "sp_size"]) > 1,
        "strategy.dp": lambda s, f: int(f["num_processes"]) == product(s["strategy"]),
        "strategy.dp_replicate": lambda s, f: f["distributed_type"] != "FSDP" or int(f.get(SIZE + "dp_replicate_size", 1)) == s["strategy"]["dp_replicate"],
        "strategy.dp_shard": lambda s, f: f["distributed_type"] != "FSDP" or int(f.get(SIZE + "dp_shard_size", s["strategy"]["dp"])) == s["strategy"]["dp_shard"],
        "strategy.fsdp.enabled": lambda s, f: f["distributed_type"] == "FSDP",
        "strategy.fsdp.reshard_after_forward": lambda s, f: f["distributed_type"] != "FSDP",
        "strategy.zero_stage": lambda s, f: s["strategy"]["fsdp"]["enabled"],
        "strategy.schedule": lambda s, f: s["strategy"]["pp"] == 1,
        "strategy.virtual_stages": lambda s, f: s["strategy"]["pp"] == 1,
        "strategy.sequence_parallel": lambda s, f: s["strategy"]["tp"] == 1,
        "strategy.offload_parameters": lambda s, f: f["fsdp_config.fsdp_offload_params"] == "true",
        "strategy.bucket": lambda s, f: f["distributed_type"] == "FSDP",
        "strategy.overlap.grad_reduce": lambda s, f: True,
        "training.fp8.recipe": lambda s, f: f["mixed_precision"] != "fp8" or f["fp8_config.backend"] == {"delayed": "TE", "tensorwise": "AO"}[s["training"]["fp8"]["recipe"]],
        "training.fp8.parameters": lambda s, f: f["mixed_precision"] != "fp8" or f["fp8_config.enable_fsdp_float8_all_gather"] == "true",
        "training.gradient_dtype": lambda s, f: s["training"]["gradient_dtype"] == "model" or s["training"]["precision"] == "fp32",
        "training.tokens": lambda s, f: s["training"]["tokens"] == 0,
    },
}
PARTS = "parallelism.module_fqns_per_model_part"
SIZE = "parallelism_config.parallelism_config_"


def python_shards(found):
    return [int(found[f"parallelism.data_parallel_{kind}_degree"]) for kind in ("replicate", "shard")]


def axes_of(s, order):
    return [a for a in order.split(",") if s["strategy"].get(a, 1) > 1]


def axes_in_order(s):
    order = s["strategy"]["placement"]
    return axes_of(s, order if isinstance(order, str) else ",".join(order))


def divides_nothing(scenario):
    return scenario["strategy"]["zero_stage"] == 0 and not scenario["strategy"]["fsdp"]["enabled"]


def degrees(found):
    return int(found["parallelism.data_parallel_replicate_degree"]) * int(found.get("parallelism.data_parallel_shard_degree", 1))


def unsaid(target, report, scenario, found):
    """Settings without a flag that the file does not say either."""
    for setting in report["settings"]:
        if setting["flag"]:
            continue
        rule = IMPLIED.get(target, {}).get(setting["key"])
        if rule is None:
            yield f"{setting['key']} = {setting['value']} has no flag, and no rule of this test says why"
        elif not rule(scenario, found):
            yield f"{setting['key']} = {setting['value']} has no flag, and the file says something else"
