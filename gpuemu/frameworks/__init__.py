"""Validation of operations of a framework. Each framework is imported only by its own module."""
