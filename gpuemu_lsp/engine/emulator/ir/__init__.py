"""The emulator's intermediate representation: one flat control-flow graph of PTX instructions per kernel.

A :class:`.program.Program` is a kernel with every device function inlined. It stays close to PTX on purpose: a basic
block holds instructions of the parsed PTX itself, with their operands, modifiers and source locations, so that a
finding can name the instruction and the line it stems from, and no semantics are lost in a translation to a lower
form. What the front end adds is explicit control flow.

==================  ==================================================================================================
module              content
==================  ==================================================================================================
``program``         basic blocks and their terminators, the layout of parameters, shared and local memory
``opcodes``         classification of opcodes: barriers, warp collectives, memory accesses; pseudo-instructions
``operands``        definitions and uses: the registers an instruction or a terminator writes and reads
``accesses``        the accesses to global and shared memory, by site
``lattice``         uniform, affine and varying values: the lattice of divergence analysis
==================  ==================================================================================================

The form is not SSA. PTX registers are assigned many times, lanes of a warp take turns at executing a block, and a
guarded write keeps the old value of the lanes that are switched off, so phi functions would have to select by lane.
:mod:`..analysis.webs` gives each web a register of its own instead, which is all the analyses need.

A *site* is the number of an instruction or terminator in program order. Terminators count, so that a barrier has a
site as well. Coverage, counters, race records and findings refer to instructions by site.

An opcode whose name starts with ``%`` is a pseudo-instruction: it exists only here, and the front end creates it.
"""
