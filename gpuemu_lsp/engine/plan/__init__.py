"""What to run: a KernelSpec, the source's signature and its launches become one resolved Plan per dtype."""
