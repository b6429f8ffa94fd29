"""MLPerf Training v3.0: ResNet-50 and BERT on NVIDIA GPUs."""
from extractors import mlperf

SOURCE = {
    "source": "MLPerf Training v3.0 (MLCommons, June 2023), ResNet-50 of MXNet and BERT of PyTorch",
    "repository": "mlcommons/training_results_v3.0", "commit": "63e326c400f5d8bb8c6070a9ab08332d4931152e",
    "files": ["*/results/*/{resnet,bert}/result_*.txt", "*/systems/*.json"],
    "lot": 3,
    "stated": "GPUs and nodes by the system's description; batch by the log; the rate is the median of all epochs but "
              "the first, as the log states it or by the times of its epochs",
    "seen": "nothing",
    "guesses": ["images of 224 x 224 in fp16", "LARS as SGD with momentum",
                "half of BERT's 512 tokens are padding, which is left out: 256 a sequence, all of equal length",
                "38 masked words a sequence go through BERT's head: 15 % of its tokens",
                "the machine and network of the catalogue that are nearest to the description"],
    "base": {"schema": "rehearse/scenario/v1", "cluster": {}, "training": {}, "strategy": {}},
}


def precision_of(system):
    """On H100 all products of BERT's layers, those of attention too, are in fp8 (--use_transformer_engine2)."""
    return {"training.precision": "fp8_mixed", "training.fp8.attention": True} if mlperf.on_hopper(system) else {}


def rows(clone):
    return mlperf.rows(clone, {"resnet": "mxnet@mlperf-3.0", "bert": "mlperf-bert@3.0"}, bert=precision_of)
