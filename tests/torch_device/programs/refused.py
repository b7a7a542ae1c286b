"""What the device does not have, each said by name."""

from multiprocessing.reduction import ForkingPickler

import torch


def refused():
    yield lambda: torch.cuda.CUDAGraph()
    yield lambda: torch.cuda.make_graphed_callables(torch.nn.ReLU().cuda(), (torch.ones(3, device="cuda"),))
    yield lambda: ForkingPickler.dumps(torch.ones(3, device="cuda"))
    yield lambda: torch._cudnn_init_dropout_state(0.5, True, 0, device="cuda", dtype=torch.uint8)


for attempt in refused():
    try:
        attempt()
    except NotImplementedError as error:
        print(type(error).__name__, str(error).splitlines()[0])
