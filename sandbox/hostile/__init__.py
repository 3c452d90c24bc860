"""Hostile graders, the required result of each, and code that tries them against a backend.

Used by the tests and `gradebox selftest`.

corpus.jsonl      collected graders, one object a line
variations.toml   variations of them: the same aims by other means
calls.toml        system calls that must be refused
channel.toml      completions that write to every descriptor and process that they can reach
asking.toml       graders that ask, and completions that ask in their place
reuse.toml        state that one batch leaves for the next
"""
