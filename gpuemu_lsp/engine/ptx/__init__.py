"""PTX parser: text to a typed :class:`~gpuemu_lsp.engine.ptx.model.Module` for emulator, lint, report and diff.

Input is what NVRTC, nvcc, clang and Triton write (PTX ISA 8); the parser reads a module in one pass:

* A statement is an instruction, a label, a brace, a function head, a declaration, ``.loc``, ``.file``, a header
  directive, a ``.pragma`` or a ``.section`` (:mod:`statements`).
* Instructions keep their opcode and modifiers as written, with operands by shape: register, immediate, symbol with
  offset, ``[address]``, ``{vector}``, ``a|b``, ``!p`` (:mod:`operands`, section 6). Calls are ``(returns), callee,
  (arguments)[, prototype]``.
* Registers, variables and labels of an inner ``{ }`` scope, as inline assembly writes them, get unique names with
  ``@`` (:mod:`function_builder`, section 4.4.2).
* Initial values become a byte image with relocations (:mod:`initializers`, section 5.4.4).
* ``.loc`` gives each instruction its source location with the chain of inlined call sites (:mod:`locations`, section
  11.5).

Not interpreted: opcodes, operand counts and types are not checked, since the emulator's frontend decides which
instructions it supports, per instruction and with its source line. Pragmas but ``used_bytes_mask`` are skipped, as are
all sections except ``.debug_str``. An undeclared name with ``%`` is a special register, any other undeclared name a
symbol.

Refused with :class:`PtxError`, which has the 0-based line and what was expected: a text without ``.version``; text that
begins no statement or does not end; unmatched braces and brackets; code outside of a function; unknown types and state
spaces; malformed ``.reg``, ``.loc``, ``.file``, ``.alias`` and calls; initial values that do not fit their variable.
Limits protect against damaged or hostile input: 2**20 registers per function, 256 MiB of initialised data per variable,
four levels of brackets in an operand. Chains of inlining end after 64 levels.

Modules other than those named: ``parser`` (the pass), ``variables``, ``literals`` and ``expressions`` (declarations
and constants), ``model`` (the records), ``errors``, ``traversal`` (instructions, operands and call graph of a
module), ``slicing`` (what some kernels need of a module, and its digest), ``normal_form`` and ``diff`` (equal code,
and what two versions do differently), ``instruction_lines`` (source lines in PTX and SASS), ``arithmetic`` (the
formats in which a kernel rounds), ``index_overflow`` (a thread's integer arithmetic, for 32-bit indices), ``names``
and ``opcodes`` (what readers of a text ask), ``demangle``, ``triton_stores`` (order of loads and stores within a
Triton program), and ``triton_text`` (whether kernels are written for threads).
"""

from gpuemu_lsp.engine.ptx.arithmetic import arithmetic_precisions, linear_only
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.normal_form import normalise
from gpuemu_lsp.engine.ptx.parser import parse

__all__ = ["PtxError", "arithmetic_precisions", "linear_only", "normalise", "parse"]
