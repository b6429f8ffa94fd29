"""MLPerf Training v1.1: ResNet-50 of MXNet, by all who ran it on NVIDIA GPUs."""
import json
import re
import statistics

SOURCE = {
    "source": "MLPerf Training v1.1 (MLCommons, December 2021), ResNet-50, closed division, MXNet",
    "repository": "mlcommons/training_results_v1.1", "commit": "ebe92f81f7a69255a3b0a907595d8be623d75ec6",
    "files": ["*/results/*/resnet/result_*.txt", "*/systems/*.json"],
    "lot": 1,
    "stated": "GPUs, nodes and adapters by the system's description; batch per GPU by the log; the measured rate is "
              "the median of the log's throughput of all epochs but the first",
    "seen": "nothing",
    "guesses": ["images of 224 x 224 in fp16", "LARS as SGD with momentum",
                "machines and networks of the catalogue that are nearest to the descriptions",
                "the profile of mlperf-1.0 for the release of 21.05 and 21.09"],
    "base": {"schema": "rehearse/scenario/v1", "model": "resnet50", "framework": "mxnet@mlperf-1.0", "cluster": {},
             "training": {"precision": "fp16_mixed", "optimizer": "sgd", "clip_gradients": False}, "strategy": {}},
}
LOG = re.compile(r':::MLLOG (\{.*\})')


def entries(text):
    out = []
    for found in LOG.finditer(text):
        try:
            out.append(json.loads(found.group(1)))
        except ValueError:
            continue
    return out


def last(log, key):
    found = [entry["value"] for entry in log if entry["key"] == key]
    return found[-1] if found else None


def machine_of(system):
    """Machine and network of the catalogue for a system's description."""
    model, gpus = system["accelerator_model_name"], int(system["accelerators_per_node"])
    if "PCI" in model.upper():
        bridge = "BRIDGE" in str(system["accelerator_interconnect"]).upper()
        size = "40" if "40GB" in model else "80"
        return {("40", False): "machine_pcie_40.json", ("40", True): "machine_pcie_40_bridges.json",
                ("80", False): f"machine_pcie_80{'_10' * (gpus > 8)}.json"}[(size, bridge)], "ib_edr"
    if gpus == 4:
        return ("machine_sxm_40_4.json" if "40GB" in model else "hgx_a100_4gpu"), "ib_hdr"
    return "dgx_a100_80gb", "rail_hdr"


def rows(clone):
    paths = [path for path in clone.files() if re.fullmatch(r"[^/]+/results/[^/]+/resnet/result_0\.txt", path)]
    for first in paths:
        owner, _, name = first.split("/")[:3]
        description = f"{owner}/systems/{name}.json"
        system = json.loads(clone.text(description)) if description in clone.files(owner) else {}
        if "MXNet" not in str(system.get("framework")).replace("MxNet", "MXNet"):
            continue
        logs = [entries(clone.text(path)) for path in clone.files(first.rsplit("/", 1)[0]) if readable(clone, path)]
        logs = [log for log in logs if last(log, "d_batch_size")]
        rates = [entry["value"] for log in logs for entry in [e for e in log if e["key"] == "throughput"][1:]]
        if not rates:
            continue
        nodes, gpus = int(system["number_of_nodes"]), int(system["accelerators_per_node"])
        batch, total = last(logs[0], "d_batch_size"), last(logs[0], "global_batch_size")
        machine, network = machine_of(system)
        keys = {"cluster.machine": machine, "cluster.nodes": nodes, "cluster.gpus_per_node": gpus,
                "training.global_batch": total, "strategy.microbatch": batch}
        if nodes > 1:
            keys["cluster.network"] = network
        rate = statistics.median(rates)
        yield {"id": f"{owner}_{name}".lower(), "at": first.rsplit("/", 1)[0], "kind": "images", "set": keys,
               "values": {"step_time": total / rate, "stated": {"images_per_s": rate, "epochs": len(rates)}}}


def readable(clone, path):
    """Logs of 4 MiB and more may be left out of a copy of the repository."""
    try:
        clone.text(path)
        return True
    except Exception:
        return False
