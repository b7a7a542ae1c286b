"""The engine: everything but the front ends. It depends on no editor protocol and can be used alone."""
