"""What torchtitan, DeepSpeed and accelerate assert before they train, as their code says it: held to the files alone, so that it does not
follow the exporter. Megatron-LM's rules are target_checks.megatron_starts.

torchtitan: pytorch/torchtitan @73a0e6979dd1 (v0.2.2); schedules: pytorch/pytorch @00722e648b74.
DeepSpeed: deepspeedai/DeepSpeed @edaa7221267243 (0.19.6). accelerate: huggingface/accelerate @16cb6eb80dd9 (1.15)."""
import math

# Flavors whose TrainSpec has pipelining_fn=None (models/{qwen3,gpt_oss}/__init__.py).
WITHOUT_PIPELINES = ("qwen3", "gpt_oss")
# Flavors that use FlexAttention, whose update_from_config refuses context parallelism (models/*/model/args.py).
WITHOUT_CONTEXT = ("deepseek_v3", "gpt_oss")


def torchtitan(found, s):
    """Each assertion by its name, and whether the file meets it. `found`: dotted keys and their text; `s`: the scenario."""
    def number(key, otherwise=1):
        return int(found.get(key, otherwise))

    def flag(key):
        return found.get(key) == "true"

    p = "parallelism."
    tp, pp, cp = (number(f"{p}{axis}_parallel_degree") for axis in ("tensor", "pipeline", "context"))
    replicate, shard = number(f"{p}data_parallel_replicate_degree"), number(f"{p}data_parallel_shard_degree")
    ep, etp = number(f"{p}expert_parallel_degree"), number(f"{p}expert_tensor_parallel_degree")
    batch, local = number("training.global_batch_size"), number("training.local_batch_size")
    fsdp, converters, model = shard > 1 or cp > 1, found.get("model.converters", ""), found.get("model.name", "")
    recipe, compiled = found.get("quantize.linear.float8.recipe_name"), flag("compile.enable")
    microbatches = local // number(f"{p}pipeline_parallel_microbatch_size")
    schedule = found.get(f"{p}pipeline_parallel_schedule", "1F1B")
    stages = 1 if schedule in ("1F1B", "GPipe") else 2
    if f"{p}pipeline_parallel_layers_per_stage" in found:
        layers = s["(layers)"] + number(f"{p}pipeline_parallel_first_stage_less_layers") + number(f"{p}pipeline_parallel_last_stage_less_layers")
        chunks = math.ceil(layers / number(f"{p}pipeline_parallel_layers_per_stage"))
        yield "chunks over stages (pipeline_llm)", chunks % pp == 0 and (chunks // pp == 1) == (stages == 1)
    yield "ParallelDims: the degrees multiply to the ranks", replicate * shard * cp * tp * pp == s["(ranks)"]
    yield "ParallelDims: etp is tp or 1", ep == 1 or etp in (1, tp)
    yield "ParallelDims: ranks of experts", shard * cp * tp % (ep * etp) == 0 or ep == 1
    yield "seq_len_divisor", number("training.seq_len", 2048) % (2 * cp * tp) == 0
    yield "Trainer: the batch in whole local batches", batch % (local * replicate * shard) == 0
    yield "Trainer: one flush of a pipeline in a step", pp == 1 or batch == local * replicate * shard
    yield "DDP has not supported > 1D parallelism", replicate == 1 or fsdp or tp == pp == 1
    yield "maybe_enable_amp", fsdp or tp == pp == 1 or found.get("training.mixed_precision_param") == "float32"
    yield "Float8LinearConverter: gathers by a named recipe", not (recipe and flag("quantize.linear.float8.enable_fsdp_float8_all_gather"))
    yield "MXLinearConverter: torch.compile with tp", not ("quantize.linear.mx" in converters and compiled and tp > 1)
    yield "maybe_enable_async_tp", not flag(f"{p}enable_async_tensor_parallel") or compiled
    yield "PipelineScheduleSingle: batches in whole microbatches", pp == 1 or local % number(f"{p}pipeline_parallel_microbatch_size") == 0
    yield "Schedule1F1B: as many microbatches as stages", pp == 1 or schedule != "1F1B" or microbatches >= pp
    yield "ScheduleInterleaved1F1B: whole rounds", pp == 1 or schedule != "Interleaved1F1B" or microbatches % max(1, microbatches // pp) == 0
    yield "pipelining_fn", pp == 1 or model not in WITHOUT_PIPELINES
    yield "update_from_config: context parallelism", cp == 1 or model not in WITHOUT_CONTEXT
    yield "build_optimizers", found.get("optimizer.name", "AdamW") in ("Adam", "AdamW")


def torchtitan_python(found, s):
    """As above, of pytorch/torchtitan @b5bcd76c66d0; `found`: places in the Trainer.Config and their values."""
    p, t = "parallelism.", "training."
    tp, pp, cp = (found[f"{p}{axis}_parallel_degree"] for axis in ("tensor", "pipeline", "context"))
    replicate, shard = found[f"{p}data_parallel_replicate_degree"], found[f"{p}data_parallel_shard_degree"]
    ep, microbatches = found.get(f"{p}expert_parallel_degree", 1), found.get(f"{p}num_pp_microbatches", 1)
    tokens, step = found[f"{t}num_tokens_per_microbatch_per_dp_rank"], found[f"{t}num_tokens_per_train_step"]
    schedule, graphs = found.get(f"{p}pipeline_parallel_schedule", "1F1B"), not found.get(f"{t}disable_cuda_graphs", False)
    stages = 1 if schedule in ("1F1B", "GPipe") else 2
    yield "ParallelDims: the degrees multiply to the ranks", replicate * shard * cp * tp * pp == s["(ranks)"]
    yield "ParallelDims: ep divides the sparse region", shard * cp * tp % ep == 0
    yield "Trainer: tokens over ranks of a sequence", tokens % ((tp if found[f"{p}enable_sequence_parallel"] else 1) * (2 * cp if cp > 1 else 1)) == 0
    yield "Trainer: whole accumulation steps", step % (tokens * microbatches * replicate * shard) == 0
    yield "one flush of a pipeline in a step", pp == 1 or step == tokens * microbatches * replicate * shard
    yield "tokens of whole sequences", tokens % found[f"{t}max_context_length"] == 0
    yield "_validate_cuda_graphs", not graphs or pp == 1 and ep == 1
    yield "CompileConfig: async TP", not found.get("compile.enable_async_tensor_parallel") or found.get("compile.enable", False)
    yield "Schedule1F1B: as many microbatches as stages", pp == 1 or schedule != "1F1B" or microbatches >= pp
    yield "ScheduleInterleaved1F1B: whole rounds", pp == 1 or schedule != "Interleaved1F1B" or microbatches % max(1, microbatches // pp) == 0
    if f"{p}pipeline_parallel_layers_per_stage" in found:
        layers = s["(layers)"] + found[f"{p}pipeline_parallel_first_stage_less_layers"] + found[f"{p}pipeline_parallel_last_stage_less_layers"]
        chunks = math.ceil(layers / found[f"{p}pipeline_parallel_layers_per_stage"])
        yield "chunks over stages (_get_pipeline_metadata)", chunks % pp == 0 and (chunks // pp == 1) == (stages == 1)


def deepspeed(config, s):
    """As above; `config`: the JSON."""
    strategy, zero = s["strategy"], config["zero_optimization"]["stage"]
    half = config["bf16"]["enabled"] or config["fp16"]["enabled"]
    accumulated = config.get("data_types", {}).get("grad_accum_dtype")
    replicas, ranks = strategy["dp"], s["(ranks)"]
    mesh = config.get("data_parallel_size", 0), config.get("sequence_parallel_size", 0)
    # DeepSpeedConfig's world: a PipelineModule's replicas, a mesh's, else all ranks.
    world = replicas if strategy["pp"] > 1 else mesh[0] or ranks
    step = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
    optimizer = config["optimizer"]["type"]
    offloaded = config["zero_optimization"].get("offload_optimizer", {}).get("device") == "cpu"
    yield "_batch_assertion", "train_batch_size" not in config or config["train_batch_size"] == step * world
    yield "the batch of a step", step * replicas == s["training"]["global_batch"]
    yield "initialize_mesh_device", mesh == (0, 0) or mesh[0] * mesh[1] == ranks
    yield "two precisions", not (config["bf16"]["enabled"] and config["fp16"]["enabled"])
    yield "unsupported mix of model and gradient types", zero > 0 or not half or accumulated in (None, "bf16", "fp16")
    yield "an untested ZeRO optimizer", zero == 0 or optimizer in ("Adam", "AdamW") or config.get("zero_allow_untested_optimizer") is True
    yield "PipelineEngine: ZeRO 2 and 3", strategy["pp"] == 1 or zero < 2
    yield "AutoTP beside a PipelineModule", strategy["pp"] == 1 or "tensor_parallel" not in config
    yield "offload without ZeRO", not offloaded or zero > 0
    yield "offloaded parameters", "offload_param" not in config["zero_optimization"] or zero == 3


def accelerate(config, arguments, s):
    """As above; `config`: accelerate.yaml, `arguments`: training_args.json."""
    strategy, kind = s["strategy"], config["distributed_type"]
    fsdp, zero = config.get("fsdp_config", {}), config.get("deepspeed_config", {})
    sizes = {k.removeprefix("parallelism_config_").removesuffix("_size"): v for k, v in config.get("parallelism_config", {}).items()}
    replicate, shard, tp, cp, sp = (sizes.get(axis, 1) for axis in ("dp_replicate", "dp_shard", "tp", "cp", "sp"))
    step = arguments["per_device_train_batch_size"] * arguments["gradient_accumulation_steps"]
    yield "num_processes: the plan's ranks, evenly over machines", config["num_processes"] == s["(ranks)"] and s["(ranks)"] % config["num_machines"] == 0
    yield "the batch of a step", step * strategy["dp"] == s["training"]["global_batch"]
    yield "no pipelines, no ranks of experts", strategy["pp"] == 1 and strategy["ep"] == 1
    yield "one block of the kind of job", bool(fsdp) == (kind == "FSDP") and bool(zero) == (kind == "DEEPSPEED")
    yield "_validate_accelerator: sizes multiply to the processes", not sizes or sp > 1 or replicate * shard * tp * cp == config["num_processes"]
    yield "ParallelismConfig: cp and sp exclude each other", cp == 1 or sp == 1
    yield "ParallelismConfig: replicas beside tp or cp", tp == cp == 1 or replicate == 1 or shard > 1
    yield "ParallelismConfig: replicas without shards are DistributedDataParallel's", not sizes or replicate == 1 or shard > 1
    yield "maybe_context_parallel: with FSDP2", cp == 1 or fsdp.get("fsdp_version") == 2
    yield "sp_backend deepspeed", sp == 1 or kind == "DEEPSPEED"
    yield "--use_parallelism_config: with FSDP2", not sizes or not fsdp or fsdp["fsdp_version"] == 2
    yield "FullyShardedDataParallelPlugin: FSDP2 reshards or not", not fsdp or isinstance(fsdp["fsdp_reshard_after_forward"], bool)
    yield "FullyShardedDataParallelPlugin: no forward_prefetch in FSDP2", "fsdp_forward_prefetch" not in fsdp
    yield "units of layers", not fsdp or fsdp["fsdp_auto_wrap_policy"] == "TRANSFORMER_BASED_WRAP"
    yield "TrainingArguments: one precision", not (arguments.get("bf16") and arguments.get("fp16"))
    yield "TrainingArguments: mixed precision goes before the file's", config["mixed_precision"] in ("no", "fp8") or arguments.get(config["mixed_precision"]) is True
    yield "TrainingArguments: fp8 of the file stays", config["mixed_precision"] != "fp8" or "bf16" not in arguments
    yield "DeepSpeedPlugin: offloaded parameters", "offload_param_device" not in zero or zero["zero_stage"] == 3
    yield "DeepSpeed's accumulation is the Trainer's", not zero or zero["gradient_accumulation_steps"] == arguments["gradient_accumulation_steps"]
    yield "several machines: each starts its own ranks", not zero or config["num_machines"] == 1 or zero["deepspeed_multinode_launcher"] == "standard"
