"""MLPerf Training v2.1: ResNet-50 and BERT on NVIDIA GPUs."""
from extractors import mlperf

SOURCE = {
    "source": "MLPerf Training v2.1 (MLCommons, November 2022), ResNet-50 of MXNet and BERT of PyTorch",
    "repository": "mlcommons/training_results_v2.1", "commit": "158189d4cbfbee366c10da1f0f086c85d8f15b5f",
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
    return mlperf.rows(clone, {"resnet": "mxnet@mlperf-2.0", "bert": "pytorch-ddp@1.13"}, bert=mlperf.FUSED)
