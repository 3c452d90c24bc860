"""Sandboxes as containers of a Docker engine.

backend     starts and ends the containers
policy      what a container may do: all of the hardening
channel     the connection between the host and the guest
images      the same interpreter that bubblewrap mounts, as an image of the engine
leftovers   the owners of containers, and the containers that a killed service left behind
"""

from sandbox.backends.docker.backend import Docker

__all__ = ["Docker"]
