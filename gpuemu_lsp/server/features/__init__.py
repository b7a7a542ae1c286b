"""One module per LSP feature. ``register(server, services)`` adds its handlers by kind (``server.handlers``)."""
