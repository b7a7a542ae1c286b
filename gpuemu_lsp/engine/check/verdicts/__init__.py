"""Stored verdicts: a check is not repeated where nothing that it runs has changed.

Identity
    A verdict belongs to what was run, not to the text it was compiled from (:mod:`key`): the PTX of the kernel without
    its source lines (:func:`~gpuemu_lsp.engine.ptx.slicing.code_identity`), plan, tolerances, seed and options, stored
    failing cases, the version of the product, and the content of every file that the reference read. A comment, a blank
    line, or an edit of another kernel in the file changes none of them, and costs one compilation. Compilation, lint
    and the plan are therefore done at every check; only the launches are left out.

Positions
    Findings of a launch are on source lines, and these move. The instructions do not: equal identities have the same
    instructions in the same order. A stored finding names the instructions whose ``.loc`` gave its place, and the
    ``.loc`` of the same instructions in the new PTX give its place in the new text (:mod:`sites`). A place that has no
    instruction is the kernel's name, a key of gpuemu.toml or a line of the reference (:mod:`anchors`). Texts are never
    compared. A finding with any other place makes the verdict unusable, as does one whose instructions no longer agree
    on a place: the check then runs.

Triton
    The cases of a Triton kernel may each have code of their own. There the tokens of the module are the identity, with
    the files that its import read, and findings move with their tokens (:mod:`python_verdicts`).

Lines that were joined or split
    Some results depend on which instructions share a line: a rule is reported once per line, counters are summed by
    line, and reads are confirmed on unoptimised code by line. Such a verdict is reused only if the instructions share
    lines as before, which is so unless statements were joined or split.

What is not stored
    A run that a time limit cut short, or whose worker was killed; a run in which the reference failed, or gave two
    results; a run on a GPU; the deep check (:func:`~gpuemu_lsp.engine.check.verdicts.record.is_repeatable`). Commands
    that request a check always run it, and so does ``--check``, whose purpose is evidence.

Modules other than those named: ``cache`` keeps verdicts on disk, ``record`` says what of a check is stored, ``reuse``
looks up before the launches and stores after them, ``python_tokens`` are the tokens of a ``.py``.
"""
