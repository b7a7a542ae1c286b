"""Answers and tasks of other forms than ``ModelNew`` and ``Model``, written as modules that have these.

Each module knows one benchmark: how its files are recognized, and the text of the two modules. Nothing is executed
here. Sizes become numbers of the task's text, which is where :mod:`gpuemu.judge.sizes` looks for them.

- :mod:`.kernelbot`: GPU MODE's KernelBot: ``custom_kernel`` with ``task.yml`` and ``reference.py``
- :mod:`.robust_kbench`: ``forward.cu`` and ``backward.cu`` with ``func_forward.py`` and its settings
- :mod:`.flashinfer_bench`: JSON of FlashInfer-Bench: a solution, its definition and workloads
- :mod:`.listed_shapes`: kernelbench.com's ``shapes.py`` next to a task
- :mod:`.fields`: values in JSON and YAML, whose errors name the file and the key
- :mod:`.settings`: which of the settings of a task are tried
"""
