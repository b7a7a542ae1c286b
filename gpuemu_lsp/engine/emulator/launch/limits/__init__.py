"""Limits of a launch: its time, requests to stop it, and waits that never end."""
