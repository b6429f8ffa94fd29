"""MLPerf Training v0.7: ResNet-50 and BERT on NVIDIA GPUs."""
from extractors import mlperf

SOURCE = {
    "source": "MLPerf Training v0.7 (MLCommons, July 2020), ResNet-50 of MXNet and BERT of PyTorch",
    "repository": "mlcommons/training_results_v0.7", "commit": "0a8a85a209c8e45b661596c382cc20f4e32fd2fe",
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


def rows(clone):
    return mlperf.rows(clone, {"resnet": "mxnet@mlperf-0.7", "bert": "pytorch-ddp@1.10"})
