"""What runs inside a sandbox, mounted read-only. It needs the standard library alone, and a JSON parser
(child/parser.py).

    host, sandbox/session.py
     │  one socket: frames both ways, and the descriptor of each batch's memory
     ▼
    supervisor/main.py   pid 1, runs no user code, keeps the deadlines
     │  socket: source, limits, "fork"        ▲  pipe `printed`: what the child prints
     ▼                                        │  pipe `results`: records that have no room below
    template/main.py     has loaded the       │  memory `slots`: records (child/shared_records.py)
     │  fork             grader               │  memory `shared`: lines, which the host writes (protocol/chunk.py)
     ▼                                        │
    child/main.py        runs `grade` ────────┘  socket `channel`: which lines to grade; FILLED, DONE, LEAVING back

In `completion` isolation a child has one line, which lies in the template's memory when it forks
(template/fork_per_line.py): no channel, no shared memory.

`zygote.py` runs outside of every sandbox: copies of it become pid 1. `kernel/` has what is asked of the kernel,
`warmup/` what is done before a sandbox is needed.
"""
