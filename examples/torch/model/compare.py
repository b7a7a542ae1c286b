"""Compare an answer with the task: `gpuemu run compare.py -- solution`."""

import importlib
import sys

import torch
from problem import Model, get_init_inputs, get_inputs

answer = importlib.import_module(sys.argv[1]).ModelNew(*get_init_inputs()).cuda()
model = Model(*get_init_inputs()).cuda()
inputs = [x.cuda() for x in get_inputs()]
for name, arguments in (("as given", inputs), ("transposed", [x.t() for x in inputs])):
    before = [x.clone() for x in arguments]
    wanted = model(*arguments)
    torch.testing.assert_close(answer(*arguments), wanted, msg=lambda text, name=name: f"{name}: {text}")
    for x, was in zip(arguments, before, strict=True):
        assert torch.equal(x, was), f"{name}: the answer changes its input"
print("same")
