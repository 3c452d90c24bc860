# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""The client's classes: `_async` is written by hand, and `_sync` is generated from it."""
