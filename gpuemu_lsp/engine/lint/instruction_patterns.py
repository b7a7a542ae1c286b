"""Matching of instruction patterns: an opcode with a subsequence of its modifiers."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gpuemu_lsp.engine.ptx.model import Instruction, Register

_PTX = """
abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx call clmad
clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect ex2 exit fence fma fns
getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min
mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu prmt rcp red redux rem ret
rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix sub subc suld suq
sured sust szext tanh tcgen05 tensormap testp tex tld4 trap txq vote wgmma wmma xor
"""
_SASS = """
ATOM ATOMG ATOMS BAR BRA BSSY BSYNC CALL CS2R DADD DEPBAR DFMA DMMA DMUL EXIT F2F F2I FADD FFMA FMNMX FMUL FSEL FSET
FSETP HADD2 HFMA2 HGMMA HMMA HMUL2 I2F IADD3 IGMMA IMAD IMMA ISETP LDC LDG LDGDEPBAR LDGSTS LDL LDS LDSM LEA LOP3
MEMBAR MUFU PRMT QGMMA RED REDUX S2R S2UR SEL SHF SHFL STG STL STS STSM SYNCS UTMALDG VOTE WARPSYNC
"""
OPCODES = frozenset(_PTX.split())
"""Base opcodes of PTX 8 (section 9.7)."""
_MACHINE_OPCODES = frozenset(_SASS.split())


def matches(pattern: str, instruction: Instruction) -> bool:
    """Return whether a pattern matches an instruction.

    ``fma.rn.f32`` matches ``fma.rn.ftz.f32``, and ``ld.global`` matches ``ld.global.nc.v4.f32``: the first word is the
    opcode, the others have to occur in order. A pattern that begins with a modifier (``.f64``, ``approx``,
    ``global.nc``) matches contiguous parts only. ``%name`` matches a register operand such as ``%clock64``; ``*``
    matches any text.
    """
    if pattern.startswith("%"):
        return any(isinstance(operand, Register) and operand.name == pattern for operand in instruction.operands)
    wanted = pattern.strip(".")
    if not wanted:
        return False
    if "*" in wanted:
        return fnmatchcase(instruction.name, wanted)
    words = wanted.split(".")
    parts = (instruction.opcode, *instruction.modifiers)
    if words[0] == instruction.opcode and not pattern.startswith("."):
        return _in_order(words[1:], instruction.modifiers)
    if len(words) == 1 and words[0] in OPCODES and not pattern.startswith("."):
        return False
    return any(all(map(_same, words, parts[start:])) for start in range(len(parts) - len(words) + 1))


def is_machine_opcode(pattern: str) -> bool:
    """Return whether a pattern is a SASS instruction, which PTX does not have."""
    return pattern.split(".")[0] in _MACHINE_OPCODES


def _in_order(words: list[str], modifiers: tuple[str, ...]) -> bool:
    rest = iter(modifiers)
    return all(any(_same(word, modifier) for modifier in rest) for word in words)


def _same(word: str, modifier: str) -> bool:
    return word == modifier or modifier.startswith(f"{word}::")
