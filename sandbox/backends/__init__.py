"""Backends, which build sandboxes: one package each."""
