"""One module per LSP feature; each registers its handlers, which are synchronous and small."""
