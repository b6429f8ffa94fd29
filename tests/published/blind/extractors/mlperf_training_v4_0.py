"""MLPerf Training v4.0: ResNet-50 and BERT on NVIDIA GPUs."""
from extractors import mlperf

# First logs of runs that rounds 3.0 and 3.1 have, too: told by the times of their events.
KNOWN = {
    "36bab0ee3783b26d19380cdfb8a4a68d783dbddd",
    "85bfcf579f14810a948313b3901d8b85c1065a0a",
    "a4311f621d0885f73a2b7b1ff6bed1f4c735364f",
    "60e6875404924a74a94f21066dc04fb2176a4ad8",
    "1de13ba89a02f3bd270d8821ae441515c3990e22",
    "6612b6d06af24cd2f132e598b42768b7672783d2",
    "3335f7be4ffccbf7cfbee421b193e118ed7bb535",
}
SOURCE = {
    "source": "MLPerf Training v4.0 (MLCommons, June 2024), ResNet-50 of MXNet and BERT of PyTorch",
    "repository": "mlcommons/training_results_v4.0", "commit": "6fe954378efe4a1a1bd665550b18ff8f26018def",
    "files": ["*/results/*/{resnet,bert}/result_*.txt", "*/systems/*.json", "*/benchmarks/bert/**/config_*.sh"],
    "lot": 4,
    "stated": "GPUs and nodes by the system's description; batch by the log; precision, attention, graphs and blocks "
              "of gradients by the flags of the owner's configuration of as many nodes and samples; the rate is the "
              "median of all epochs but the first, as the log states it or by the times of its epochs",
    "seen": "nothing",
    "guesses": ["images of 224 x 224 in fp16", "LARS as SGD with momentum",
                "half of BERT's 512 tokens are padding, which is left out: 256 a sequence, all of equal length",
                "38 masked words a sequence go through BERT's head: 15 % of its tokens",
                "the profiles of the round before the last",
                "the machine and network of the catalogue that are nearest to the description",
                "where a configuration asks for SHARP, switches that reduce"],
    "left_out": "runs of the rounds before; BERT's rows of which no configuration of their owner tells the flags",
    "base": {"schema": "rehearse/scenario/v1", "cluster": {}, "training": {}, "strategy": {}},
}


def rows(clone):
    return mlperf.rows(clone, {"resnet": "mxnet@mlperf-3.0", "bert": "mlperf-bert@3.0"}, flags=True, known_logs=KNOWN)
