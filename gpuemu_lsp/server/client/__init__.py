"""The connection to the client: JSON-RPC, status, progress and refresh requests."""
