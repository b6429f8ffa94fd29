"""Oneflow's comparison of frameworks: ResNet-50 and BERT base on one to 32 V100."""
import re

import reading

REPORT = "reports/dlperf_benchmark_test_report_v1.md"
BERT_BASE = {"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072,
             "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512}
SOURCE = {
    "source": "DLPerf benchmark test report v1.0 (Oneflow-Inc, October 2020)",
    "repository": "Oneflow-Inc/DLPerf", "commit": "c89430bac64f64caabb0445ff7eb80175641454c", "files": [REPORT],
    "lot": 1,
    "stated": "nodes of 8 x V100-SXM2-16GB with one EDR adapter; batch per GPU; BERT with 128 tokens and Adam "
              "(*/BERT/README.md and scripts: max_seq_length 128); releases of all frameworks",
    "seen": "log lines of NGC PyTorch BERT with AMP and 96 sequences on 1, 8 and 16 GPUs, in a search for batch sizes: "
            "these rows count in no figure",
    "guesses": ["fat tree of EDR between nodes", "SGD with momentum for ResNet-50",
                "all tokens go through BERT's head, of which the sources predict 20 in 128",
                "PyTorch 1.5 and 1.6 as the profile's oldest release, 1.10; Apex's buckets as DDP's",
                "TensorFlow 2.3's own distribution strategy as the profile of Horovod",
                "OneFlow and PaddlePaddle as no framework stated"],
    "base": {"schema": "rehearse/scenario/v1", "cluster": {"machine": "machine.json"}, "training": {}, "strategy": {}},
}
FRAMEWORKS = {"NGC MXNet": "mxnet@dle-2019-10", "NGC TensorFlow 1.x": "tensorflow1@dle-2020-06",
              "NGC PyTorch": "pytorch-ddp@1.10", "MXNet": "mxnet@1.6.0", "TensorFlow 2.x": "tensorflow2@dle-bert",
              "PyTorch": "pytorch-ddp@1.10", "OneFlow": None, "PaddlePaddle": None}


def column_of(text):
    """A column's name as (framework, batch or None, words after it)."""
    batch = re.search(r"bsz=([0-9]+)", text)
    name = max((name for name in FRAMEWORKS if text.startswith(name)), key=len)
    return name, int(batch.group(1)) if batch else None, {"xla": "XLA" in text, "clip": "W/O clip" not in text}


def job(model, precision, framework, batch, how, gpus):
    keys = {"cluster.nodes": max(1, gpus // 8), "cluster.gpus_per_node": min(8, gpus),
            "training.precision": precision, "training.global_batch": batch * gpus, "strategy.microbatch": batch}
    if gpus > 8:
        keys["cluster.network"] = "ib_edr"
    if model == "bert":
        keys |= {"model": BERT_BASE, "training.sequence_length": 128, "training.optimizer": "adamw",
                 "training.clip_gradients": how["clip"]}
    else:
        keys |= {"model": "resnet50", "training.optimizer": "sgd", "training.clip_gradients": False}
    if FRAMEWORKS[framework]:
        keys["framework"] = FRAMEWORKS[framework]
    if how["xla"]:
        keys["kernels.compile"] = True
    return keys


def rows(clone):
    for headings, columns, lines in reading.markdown_tables(clone.text(REPORT)):
        if columns[:2] != ["node num", "device num"]:
            continue
        model = "bert" if "BERT" in headings[-2] else "resnet50"
        precision = "fp32" if headings[-1].startswith("FP32") else "fp16_mixed"
        common = reading.number(headings[-1].split("=")[1])
        for at, cells in lines:
            gpus = int(cells[1])
            for column, cell in zip(columns[2:], cells[2:]):
                framework, batch, how = column_of(column)
                batch, rate = batch or int(common), reading.number(cell)
                if rate is None:
                    continue
                words = [model, precision, framework.replace(" ", "_").lower(), "xla" * how["xla"],
                         "noclip" * (not how["clip"]), f"b{batch}", f"{gpus}g", "max" * ("max" in headings[-1])]
                row = {"id": "_".join(filter(None, words)), "at": f"{REPORT}:{at}",
                       "kind": "encoders" if model == "bert" else "images",
                       "set": job(model, precision, framework, batch, how, gpus),
                       "values": {"step_time": batch * gpus / rate, "stated": {"samples_per_s": rate}}}
                if framework == "NGC PyTorch" and batch == 96 and precision != "fp32" and gpus < 32:
                    row["seen"] = True
                yield row
