"""Sandboxes as containers of a Docker engine.

backend    starts them, and ends them
policy     what a container may do: all of the hardening
channel    how the host comes to speak to the guest
images     the very interpreter that bubblewrap shows, as an image of the engine
leftovers  whose containers these are, and which of them a killed service left behind
"""

from sandbox.backends.docker.backend import Docker

__all__ = ["Docker"]
