"""Bad graders, what must come of each, and how they are tried against a backend: for the tests and `gradebox selftest`.

corpus.jsonl      graders that were collected, an object a line
variations.toml   their siblings: the same aims by other ways
calls.toml        system calls that must be refused
channel.toml      completions that speak to whoever listens
asking.toml       graders that ask, and completions that ask in their place
reuse.toml        what one batch leaves for the next
"""
