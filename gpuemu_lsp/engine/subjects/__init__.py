"""Subjects: what can be checked, behind two protocols.

A :class:`~.language.Language` recognises a kernel and prepares it: it finds the kernel in its file, resolves its plans,
and compiles what its first cases run. Each language is a folder and a row of the table in :mod:`.languages`; no other
package asks for one by name. The :class:`~.model.Subject` that a preparation returns gives each case of a plan the code
that runs it (:class:`~.model.CaseCode`): the artifact, its arguments and launch options, its arithmetic, and where its
instructions are in the source.

What this package must never do: run a case by itself, judge one, or import what a language needs before a kernel of
that language is prepared.

:mod:`.language`, :mod:`.languages`
    The protocol of languages with its records, and their table.
:mod:`.model`
    The protocol of subjects.
:mod:`.request`
    What to check, and to which extent.
:mod:`.cuda`, :mod:`.triton`, :mod:`.pyptx`, :mod:`.ptx`, :mod:`.hip`, :mod:`.ops`, :mod:`.program_kernels`
    The languages; the last is those whose programs launch their kernels.
:mod:`.one_code_kernel`
    The subject of languages with one code for all cases.
:mod:`.code_numerics`
    What the code of a kernel says about rounding and special values.
:mod:`.assembly`
    What ptxas says about PTX that a language emits or reads.
:mod:`.ahead`
    Compilation and translation in a forked process, ahead of the check.
:mod:`.unregistered`
    What findings claim about kernels that no gpuemu.toml mentions.
:mod:`.user_module`, :mod:`.module_slice`
    Import of the user's module, or of the part of it that a kernel needs.
:mod:`.source_map`
    Lines of the source for instructions of PTX.
"""
