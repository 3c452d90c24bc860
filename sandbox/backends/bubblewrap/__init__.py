"""Sandboxes by bubblewrap: Linux namespaces, a seccomp filter, and nothing of the host but a copy of the interpreter.

backend   starts sandboxes
build     one run of bubblewrap, which makes namespaces and mounts
first     the first process in them, by which all is held
zygote    the process that sandboxes are forked from: they then need not start an interpreter each
sandbox   one that runs
"""

from sandbox.backends.bubblewrap.backend import Bubblewrap
from sandbox.backends.bubblewrap.sandbox import BubblewrapSandbox

__all__ = ["Bubblewrap", "BubblewrapSandbox"]
