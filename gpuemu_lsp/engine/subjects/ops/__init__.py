"""Ops: functions of a library in Python, compared with a reference as kernels are.

An op has a plan without PTX: sizes, tensors and scalars. Its arithmetic cannot be read from instructions; the error
budget assumes sums in the dtype of its tensors, in any order. What the op does wrong apart from its numbers (an
exception, another shape or dtype than declared) is an event of its run, as a checker's report is for a kernel.
"""
