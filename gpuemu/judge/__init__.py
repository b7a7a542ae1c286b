"""Verdicts on answers to benchmarks of kernels: a ``ModelNew`` against the ``Model`` of its task, without a GPU.

The package owns what an answer is, at which sizes and with which values it is called, and what its results are worth.
It never runs code of an answer in this process, nor where the reference is: an answer has a child of its own under
``gpuemu run``, which gets inputs and returns outputs, and the task has another, which decides.

- :mod:`.command`: answers to rows to a report, several at once, with what an earlier run has judged
- :mod:`.earlier_rows`: rows of an earlier run, which are not judged again
- :mod:`.layouts`: where benchmarks keep answers and tasks
- :mod:`.forms`: those that are not called ``ModelNew`` and ``Model``, as modules that have these
- :mod:`.gradients`: gradients as a result, for answers to a backward pass
- :mod:`.judgement`: one answer to its row: the sizes at which it is run, one group after the other
- :mod:`.verdicts`: what its calls at one group of sizes say
- :mod:`.hacks`: right results that are not computed as the task asks
- :mod:`.messages`, :mod:`.raised`: what a failed build says; an exception and whose fault it is
- :mod:`.answer_text`: what the text of an answer says
- :mod:`.processes`: the two child processes, from this side
- :mod:`.extension_folders`: where extensions of answers are built
- :mod:`.task_process`: that of the task: cases, and the comparison in fp64
- :mod:`.task_server`: what forks it, with PyTorch loaded
- :mod:`.comparison`: results against the model in fp64
- :mod:`.explanations`: what explains a difference, such as products in TF32
- :mod:`.task`: a task, loaded with chosen sizes
- :mod:`.task_text`: the part of a file that a task needs, where the answer is in the same file
- :mod:`.literals`: the numbers of a task's text that may be sizes
- :mod:`.sizes`: sizes that are derived from the task's own
- :mod:`.work`: the work of PyTorch's operators
- :mod:`.answer_process`: that of the answer; :mod:`.answer_start`: its first lines
- :mod:`.block_pointers`, :mod:`.earlier_torch`: what Triton and PyTorch have no longer, for answers that use it
- :mod:`.executed_lines`: the lines of an answer that were executed
- :mod:`.values`: what passes between the processes
- :mod:`.report`: rows as text, JSON, Markdown and CSV
- :mod:`.model`: the records
"""
