"""MLPerf Training v3.1: ResNet-50 and BERT on NVIDIA GPUs."""
from extractors import mlperf

# First logs of runs that round 3.0 has, too: told by the times of their events.
KNOWN = {
    "3c6753676fd8e37ff27857f9ee2ab1020e8c04c1",
    "95e3847c3f437c40e74c3bae6b9de2fcbf3dcabe",
    "f5e016b6da503fa16c8748396a535fa91c6eef29",
    "ce999d60e5825f432c82088793a0eadcb4e613f7",
    "49e37681f97f5185d7df33900e6be6468a627a1c",
    "2b04bcd918225bf1df5ed2fe7f601ccd7bcf192e",
    "af1934c86bc15768aef3e446bc462a120fff922a",
    "ef6a16087ccd0224651f60b30064beec39ba2d52",
}
SOURCE = {
    "source": "MLPerf Training v3.1 (MLCommons, November 2023), ResNet-50 of MXNet and BERT of PyTorch",
    "repository": "mlcommons/training_results_v3.1", "commit": "d06288b2bd675a9d88e0e6181f5bb5626b71ec19",
    "files": ["*/results/*/{resnet,bert}/result_*.txt", "*/systems/*.json", "*/benchmarks/bert/**/config_*.sh"],
    "lot": 5,
    "stated": "GPUs and nodes by the system's description; batch by the log; precision, attention, graphs and blocks "
              "of gradients by the flags of the owner's configuration of as many nodes and samples; the rate is the "
              "median of all epochs but the first, as the log states it or by the times of its epochs",
    "seen": "nothing",
    "guesses": ["images of 224 x 224 in fp16", "LARS as SGD with momentum",
                "half of BERT's 512 tokens are padding, which is left out: 256 a sequence, all of equal length",
                "38 masked words a sequence go through BERT's head: 15 % of its tokens",
                "the profiles of the round before",
                "the machine and network of the catalogue that are nearest to the description",
                "where a configuration asks for SHARP, switches that reduce"],
    "left_out": "runs of the rounds before; BERT's rows of which no configuration of their owner tells the flags",
    "base": {"schema": "rehearse/scenario/v1", "cluster": {}, "training": {}, "strategy": {}},
}


def rows(clone):
    return mlperf.rows(clone, {"resnet": "mxnet@mlperf-3.0", "bert": "mlperf-bert@3.0"}, flags=True, known_logs=KNOWN)
