"""Texture and surface objects among the parameters of a kernel."""
