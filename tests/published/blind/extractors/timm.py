"""PyTorch Image Models: training steps on one RTX 3090, channels last and first."""
import reading

FILES = {"nhwc": "results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv",
         "nchw": "results/benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"}
BASIC = {"model_type": "resnet", "layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]}
NETWORKS = {
    "resnet18": BASIC | {"depths": [2, 2, 2, 2]}, "resnet34": BASIC | {"depths": [3, 4, 6, 3]},
    "resnet50": "resnet50", "resnet101": "resnet101", "resnet152": "resnet152", "vgg16": "vgg16",
    "inception_v3": {"model_type": "inception_v3", "aux_logits": False, "dropout": 0.0, "num_labels": 1000,
                     "image_size": 299},
}
SOURCE = {
    "source": "PyTorch Image Models: results/benchmark-train-amp-*-pt112-cu113-rtx3090.csv (2022)",
    "repository": "huggingface/pytorch-image-models", "commit": "aa4b5850c1543fa488abf260f18390eda46cf85d",
    "files": list(FILES.values()),
    "lot": 1,
    "stated": "PyTorch 1.12 with AMP on one RTX 3090; batch and side by the file; layout by the file's name",
    "seen": "nothing",
    "guesses": ["SGD with momentum (benchmark.py's default)", "the layout of tensors is no key",
                "Inception-v3 without its auxiliary head"],
    "left_out": "all networks but these seven, which are not among those the program knows",
    "base": {"schema": "rehearse/scenario/v1", "framework": "pytorch-ddp@1.13",
             "cluster": {"machine": "rtx3090_2x", "nodes": 1, "gpus_per_node": 1},
             "training": {"precision": "fp16_mixed", "optimizer": "sgd", "clip_gradients": False}, "strategy": {}},
}


def rows(clone):
    for layout, path in FILES.items():
        for at, row in reading.csv_rows(clone.text(path)):
            if row["model"] not in NETWORKS:
                continue
            batch, side = int(row["train_batch_size"]), int(row["train_img_size"])
            yield {"id": f"{row['model']}_{layout}_b{batch}", "at": f"{path}:{at}", "kind": "images",
                   "set": {"model": NETWORKS[row["model"]], "training.image_height": side,
                           "training.image_width": side, "training.global_batch": batch,
                           "strategy.microbatch": batch},
                   "values": {"step_time": batch / float(row["train_samples_per_sec"]),
                              "stated": {"images_per_s": float(row["train_samples_per_sec"])}}}
