"""Writes the graph of a PyTorch module (1.13 or later) as JSON, for `rehearse import graph FILE`.

    import torch, torchvision, rehearse_graph
    rehearse_graph.write(torchvision.models.resnet50(), (2, 3, 224, 224), "resnet50.json")
    rehearse_graph.write(gpt, (2, 1024), "gpt.json", torch.int64)

The module runs once on zeros, and each call is noted with the shapes it meets: control flow is what it was in this run, and in training mode
auxiliary outputs stay. A torch.fx.GraphModule is a module too. No weights are written.
"""
import json
import math

import torch
from torch.overrides import TorchFunctionMode

WHOLE = ("Linear", "Conv", "Norm", "Pool", "Embedding", "Dropout", "GELU", "SiLU", "ReLU", "Multihead")  # Modules of torch.nn that are one operator.


def plain(value):
    """Numbers, texts and lists of them as JSON has them; nothing of all else."""
    if isinstance(value, (tuple, list)):
        items = [plain(v) for v in value]
        return None if None in items else items
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, (bool, int, float, str)) and finite else None


def tensors(value):
    """Those in a nest of tuples, lists and dictionaries."""
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else [value] if isinstance(value, torch.Tensor) else []


def place(tensor):
    return (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()).data_ptr() or id(tensor)


class Recorder(TorchFunctionMode):
    def __init__(self, module):
        super().__init__()
        self.nodes, self.name_of, self.kept, self.inside = [], {}, [], 0
        self.paths = {m: path for path, m in module.named_modules()}
        stored = [*module.named_parameters(), *module.named_buffers()]
        self.path_of = {id(t): path for path, t in stored}
        self.owner = {place(t): t for _, t in stored}  # Of memory: plain indexing makes views that no mode sees.

    def add(self, op, inputs, outs, **more):
        sources = [self.source(t) for t in inputs]
        for out in outs:
            name = f"{op}_{len(self.nodes)}"
            self.nodes.append({"name": name, "op": op, "inputs": sources, "shape": list(out.shape), **more})
            self.name_of[id(out)] = name
            self.owner[place(out)] = out
            self.kept.append(out)  # Or another tensor would take its number.

    def source(self, tensor):
        owner = self.owner.get(place(tensor), tensor)
        if id(tensor) not in self.name_of and id(tensor) not in self.path_of and owner is not tensor:
            self.add("getitem", [owner], [tensor])
        elif id(tensor) not in self.name_of:
            self.add("parameter" if isinstance(tensor, torch.nn.Parameter) else "constant", [], [tensor], module=self.path_of.get(id(tensor), ""))
        return self.name_of[id(tensor)]

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", str(func)).strip("_")
        if not self.inside and tensors(out):
            self.add(name, tensors([args, kwargs]), tensors(out), constants=[plain(a) for a in args if not isinstance(a, torch.Tensor)],
                     options={k: plain(v) for k, v in kwargs.items() if plain(v) is not None})
        return out

    def enter(self, module, _):
        self.inside += self.is_operator(module)

    def leave(self, module, args, out):
        if not self.is_operator(module):
            return
        self.inside -= 1
        if not self.inside:
            attributes = {k: plain(v) for k, v in vars(module).items() if not k.startswith("_") and plain(v) is not None}
            self.add(type(module).__name__, tensors(args), tensors(out)[:1], module=self.paths.get(module, ""), attributes=attributes,
                     parameters={k: list(p.shape) for k, p in module.named_parameters()})

    @staticmethod
    def is_operator(module):
        return type(module).__module__.startswith("torch.nn.modules") and any(w in type(module).__name__ for w in WHOLE)


def write(module, shape, path, dtype=torch.float32):
    """`shape`: of one input, its batch first, or a list of several; of whole numbers with dtype=torch.int64."""
    shapes = shape if isinstance(shape, list) else [shape]
    inputs, recorder = [torch.zeros(s, dtype=dtype) for s in shapes], Recorder(module)
    for x in inputs:
        recorder.add("placeholder", [], [x])
    hooks = [torch.nn.modules.module.register_module_forward_pre_hook(recorder.enter),
             torch.nn.modules.module.register_module_forward_hook(recorder.leave)]
    try:
        with torch.no_grad(), recorder:
            out = tensors(module(*inputs))
    finally:
        for hook in hooks:
            hook.remove()
    recorder.add("output", out, out[:1])
    parameters = {name: list(p.shape) for name, p in module.named_parameters()}
    with open(path, "w") as f:
        json.dump({"schema": "rehearse/graph/v1", "name": type(module).__name__, "torch": torch.__version__, "parameters": parameters,
                   "nodes": recorder.nodes}, f)
