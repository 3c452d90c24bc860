"""Pools of sandboxes, which projects share."""
