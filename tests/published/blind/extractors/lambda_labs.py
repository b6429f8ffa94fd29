"""Lambda's benchmark of PyTorch: ResNet-50 and BERT for SQuAD on V100 to H100, workstation and consumer GPUs too."""
import re
import statistics

import reading

FOLDER = "pytorch"
TABLES = {"fp16": "fp16_mixed", "fp32": None}
# SQuAD's head has two outputs a token, the ends of a span: a masked-language head over a vocabulary of two.
BERT_BASE = {"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072,
             "num_attention_heads": 12, "vocab_size": 2, "max_position_embeddings": 512}
BERT_LARGE = BERT_BASE | {"num_hidden_layers": 24, "hidden_size": 1024, "intermediate_size": 4096,
                          "num_attention_heads": 16}
MODELS = {"resnet50": "resnet50", "bert_base_squad": BERT_BASE, "bert_large_squad": BERT_LARGE}
# By words of a system's name: the machine of the catalogue, and the arithmetic of its fp32 column (NVIDIA's libraries
# take tf32 for it from Ampere on).
MACHINES = [
    (r"V100 16GB", "dgx1v_16gb", "fp32"), (r"RTX 3090", "rtx3090_2x", "tf32"), (r"\bA10$", "pcie4_a10", "tf32"),
    (r"A100 80GB PCIe", "pcie8_a100_4sw", "tf32"), (r"A100 80GB SXM4", "dgx_a100_80gb", "tf32"),
    (r"RTX 6000 Ada", "pcie8_rtx_6000_ada_2sw", "tf32"), (r"RTX A6000", "pcie4_a6000_nvlink", "tf32"),
    (r"RTX 4090", "rtx4090_2x", "tf32"), (r"H100 80GB PCIe", "pcie8_h100_2sw", "tf32"),
    (r"H100 80GB SXM5", "dgx_h100", "tf32"),
]
SOURCE = {
    "source": "Lambda, deeplearning-benchmark: pytorch-train-throughput-fp16 and -fp32 (2023)",
    "repository": "lambdal/deeplearning-benchmark", "commit": "aa5addb6a53675a649a80036dad548f1c27cbcc4",
    "files": [f"{FOLDER}/pytorch-train-{what}-{name}.csv" for what in ("throughput", "bs") for name in TABLES],
    "lot": 2,
    "stated": "GPUs by the row's name, batch by the table beside it; systems of one kind are one row, at their median; "
              "NVIDIA's PyTorch 22.09 and its DeepLearningExamples (scripts/compile_results_pytorch.py)",
    "seen": "nothing",
    "guesses": ["sequences of 384 tokens",
                "SQuAD's head as a masked-language head over two words, and so a word table of two rows",
                "the machine of the catalogue that has those GPUs", "SGD with momentum; Adam for BERT",
                "the fp32 tables take tf32 where the GPU has it"],
    "left_out": "networks that the program does not know (SSD, GNMT, NCF, Tacotron 2, Transformer-XL, WaveGlow)",
    "base": {"schema": "rehearse/scenario/v1", "framework": "pytorch-ddp@1.13", "cluster": {"nodes": 1}, "training": {},
             "strategy": {}},
}


def machine_of(name):
    found = [(machine, precision) for words, machine, precision in MACHINES if re.search(words, name)]
    return found[0] if found else None


def kind_of(name):
    """A system's name without whose it is: "4x V100 16GB" of "LambdaCloud 4xV100 16GB"."""
    return re.sub(r"^(LambdaCloud|DellTexas|Dell|SMC|1CC|RAIDZ1) ", "", name).replace("xV", "x V")


def row_of(name, gpus, model, table, batch, rates, at):
    rate = statistics.median(rates)
    found = machine_of(name)
    keys = {"model": MODELS[model], "cluster.gpus_per_node": gpus, "training.global_batch": batch,
            "strategy.microbatch": batch // gpus}
    if model == "resnet50":
        keys |= {"training.optimizer": "sgd", "training.clip_gradients": False}
    else:
        keys |= {"training.optimizer": "adam", "training.sequence_length": 384}
    if found:
        keys |= {"cluster.machine": found[0], "training.precision": TABLES[table] or found[1]}
    out = {"id": "_".join([name.lower().replace(" ", "_"), model, table]), "at": at,
           "kind": "images" if model == "resnet50" else "encoders", "set": keys,
           "values": {"step_time": batch / rate, "stated": {"samples_per_s": rate, "systems": len(rates)}}}
    if not found:
        out["inexpressible"] = f"no machine of the catalogue: {name}"
    return out


def rows(clone):
    for table in TABLES:
        path = f"{FOLDER}/pytorch-train-throughput-{table}.csv"
        batches = {row["name_gpu"]: row for _, row in reading.csv_rows(clone.text(path.replace("throughput", "bs")))}
        systems = {}
        for _, row in reading.csv_rows(clone.text(path)):
            for model in MODELS:
                rate = float(row[model] or 0)
                if rate and row["name_gpu"] in batches:
                    batch = int(float(batches[row["name_gpu"]][model]))
                    key = kind_of(row["name_gpu"]), int(float(row["num_gpu"])), model, batch
                    systems.setdefault(key, []).append(rate)
        for (name, gpus, model, batch), rates in systems.items():
            yield row_of(name, gpus, model, table, batch, rates, path)
