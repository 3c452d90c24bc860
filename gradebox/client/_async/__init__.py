"""The client's classes: `_async` is written by hand, and `_sync` is generated from it."""
