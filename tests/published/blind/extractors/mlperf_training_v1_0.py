"""MLPerf Training v1.0: ResNet-50 and BERT on NVIDIA GPUs."""
from extractors import mlperf

SOURCE = {
    "source": "MLPerf Training v1.0 (MLCommons, June 2021), ResNet-50 of MXNet and BERT of PyTorch",
    "repository": "mlcommons/training_results_v1.0", "commit": "50619b5df63f1d646715a82c1fb8c35f271e25fa",
    "files": ["*/results/*/{resnet,bert}/result_*.txt", "*/systems/*.json"],
    "lot": 2,
    "stated": "GPUs and nodes by the system's description; batch by the log; the rate is the median of all epochs but "
              "the first, as the log states it or by the times of its epochs",
    "seen": "nothing",
    "guesses": ["images of 224 x 224 in fp16", "LARS as SGD with momentum",
                "half of BERT's 512 tokens are padding, which is left out: 256 a sequence, all of equal length",
                "all tokens go through BERT's head, of which 76 a sequence are predicted at most",
                "the machine and network of the catalogue that are nearest to the description"],
    "base": {"schema": "rehearse/scenario/v1", "cluster": {}, "training": {}, "strategy": {}},
}


def machine_of(system, gpus):
    """Boards of the next round where the catalogue has none."""
    if "PCI" not in system["accelerator_model_name"].upper() or "40GB" not in system["accelerator_model_name"]:
        return mlperf.by_catalogue(system, gpus)
    bridges = "BRIDGE" in str(system["accelerator_interconnect"]).upper()
    return f"../mlperf_training_v1_1/machine_pcie_40{'_bridges' * bridges}.json", "ib_edr"


def rows(clone):
    return mlperf.rows(clone, {"resnet": "mxnet@mlperf-1.0", "bert": "pytorch-ddp@1.10"}, machine_of,
                       mlperf.FUSED_ATTENTION)
