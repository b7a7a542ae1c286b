"""Open documents, conversion of positions and URIs, and parsed files."""
