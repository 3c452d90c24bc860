"""The result of the doctor for one layer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One layer: whether it is in force, what was seen, and how to get it.

    Sandboxes are safe without a layer that is not `needed`.
    """

    name: str
    in_force: bool
    seen: str
    needed: bool = True
    fix: str = ""
