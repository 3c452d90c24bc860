"""Sandboxes by bubblewrap: Linux namespaces, a seccomp filter, and nothing of the host but a copy of the interpreter.

backend         starts sandboxes
bwrap_run       one run of bubblewrap, which makes namespaces and mounts
first_process   the first process in them; all others end with it
zygote          the process that sandboxes are forked from, so that they need not start an interpreter each
sandbox         a running sandbox
"""

from sandbox.backends.bubblewrap.backend import Bubblewrap
from sandbox.backends.bubblewrap.sandbox import BubblewrapSandbox

__all__ = ["Bubblewrap", "BubblewrapSandbox"]
