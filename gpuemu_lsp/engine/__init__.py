"""The engine: everything but the faces. It knows nothing of editors and can be used alone."""
