"""What the doctor says of one thing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One layer: whether it is in force, what was seen, and how to get it. Safety holds without one not `needed`."""

    name: str
    in_force: bool
    seen: str
    needed: bool = True
    fix: str = ""
