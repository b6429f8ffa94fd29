"""MLPerf Training v1.1: BERT on NVIDIA GPUs."""
from extractors import mlperf

SOURCE = {
    "source": "MLPerf Training v1.1 (MLCommons, December 2021), BERT of PyTorch",
    "repository": "mlcommons/training_results_v1.1", "commit": "ebe92f81f7a69255a3b0a907595d8be623d75ec6",
    "files": ["*/results/*/{bert}/result_*.txt", "*/systems/*.json", "*/benchmarks/bert/**/config_*.sh"],
    "lot": 5,
    "stated": "GPUs and nodes by the system's description; batch by the log; precision, attention, graphs and blocks "
              "of gradients by the flags of the owner's configuration of as many nodes and samples; the rate is the "
              "median of all epochs but the first, as the log states it or by the times of its epochs",
    "seen": "nothing",
    "guesses": ["half of BERT's 512 tokens are padding, which is left out: 256 a sequence, all of equal length",
                "38 masked words a sequence go through BERT's head: 15 % of its tokens",
                "the profile of mlperf-1.0 for the releases of 21.08 and 21.09",
                "the machine and network of the catalogue that are nearest to the description",
                "where a configuration asks for SHARP, switches that reduce"],
    "left_out": "BERT's rows of which no configuration of their owner tells the flags",
    "base": {"schema": "rehearse/scenario/v1", "cluster": {}, "training": {}, "strategy": {}},
}


def rows(clone):
    return mlperf.rows(clone, {"bert": "mlperf-bert@1.0"}, flags=True)
