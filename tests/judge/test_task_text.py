"""The part of a module that a task needs."""

from __future__ import annotations

from gpuemu.judge.task_text import FUNCTIONS, needed_text

TEXT = """import torch
from build import load_inline
SIZE = 8
kernel = load_inline("x")

@torch.no_grad
def helper(x):
    return x * SIZE

class Model(torch.nn.Module):
    def forward(self, x):
        return helper(x)

class ModelNew(Model):
    def forward(self, x):
        return kernel(x)

def get_inputs():
    return [torch.rand(SIZE)]
"""


def test_what_only_the_answer_uses_is_left_out():
    needed = needed_text(TEXT, ("Model", *FUNCTIONS)).split("\n")
    lines = TEXT.split("\n")
    assert len(needed) == len(lines)
    left_out = [line for line, kept in zip(lines, needed, strict=True) if line and not kept]
    assert left_out == [
        "from build import load_inline",
        'kernel = load_inline("x")',
        "class ModelNew(Model):",
        "    def forward(self, x):",
        "        return kernel(x)",
    ]


def test_a_parameter_is_not_the_name_of_the_module():
    """Constructors of answers call their arguments as the task calls its sizes."""
    text = "size = 8\nrate = 2\nclass ModelNew:\n    def __init__(self, size):\n        self.size = [size * rate for _ in size]\n"
    assert needed_text(text, ("ModelNew",)) == text.replace("size = 8", "", 1)
