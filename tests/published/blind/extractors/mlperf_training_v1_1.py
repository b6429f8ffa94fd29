"""MLPerf Training v1.1: ResNet-50 of MXNet, by all who ran it on NVIDIA GPUs."""
import re
import statistics

from extractors import mlperf

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
        system = mlperf.system_of(clone, clone.files(owner), owner, name)
        if "MXNet" not in str(system.get("framework")).replace("MxNet", "MXNet"):
            continue
        logs = [mlperf.entries(mlperf.readable(clone, path)) for path in clone.files(first.rsplit("/", 1)[0])]
        logs = [log for log in logs if mlperf.last(log, "d_batch_size")]
        rates = [rate for log in logs for rate in mlperf.rates(log)]
        if not rates:
            continue
        nodes, gpus = int(system["number_of_nodes"]), int(system["accelerators_per_node"])
        batch, total = mlperf.last(logs[0], "d_batch_size"), mlperf.last(logs[0], "global_batch_size")
        machine, network = machine_of(system)
        keys = {"cluster.machine": machine, "cluster.nodes": nodes, "cluster.gpus_per_node": gpus,
                "training.global_batch": total, "strategy.microbatch": batch}
        if nodes > 1:
            keys["cluster.network"] = network
        rate = statistics.median(rates)
        yield {"id": f"{owner}_{name}".lower(), "at": first.rsplit("/", 1)[0], "kind": "images", "set": keys,
               "values": {"step_time": total / rate, "stated": {"images_per_s": rate, "epochs": len(rates)}}}
