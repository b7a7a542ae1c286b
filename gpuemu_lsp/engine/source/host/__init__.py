"""Host code: kernel launches, and the constants, locals and caller arguments in their configuration."""
