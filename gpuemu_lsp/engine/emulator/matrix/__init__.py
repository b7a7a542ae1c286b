"""Tensor-core instructions (PTX ISA section 9.7.14): what they multiply, and how fragments lie in registers.

Loads and stores of fragments become ordinary instructions (``lowering``), so that every checker sees their accesses;
only the product itself and the exchange of registers between lanes (``permutation``) have code of their own.
"""
