"""Projects, settings and watched files of the client's workspace folders."""
