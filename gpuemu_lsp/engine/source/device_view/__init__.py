"""The device view: a source with everything NVRTC cannot compile replaced by spaces."""
