"""Kernel interfaces of the guest: limits on a process, scratch folders, signals, sessions, descriptors, reaping."""
