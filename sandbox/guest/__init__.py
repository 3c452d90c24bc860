"""The code that runs inside a sandbox, mounted read-only. It depends on nothing but the standard library and msgspec
(child/thread_decoder.py). There its name is `gradebox._guest` (image.py), so that an environment may have a package of
any name.

    host, sandbox/grading/session.py
     │  one socket: frames in both directions, and the descriptor of the memory of each batch
     ▼
    supervisor/main.py   pid 1, runs no user code, enforces the deadlines
     │  socket: source, limits, "fork"        ▲  pipe `printed`: output of the child
     ▼                                        │  pipe `results`: records that do not fit into the memory `slots`
    template/main.py     has loaded the       │  memory `slots`: records (child/shared_records.py)
     │  fork             grader               │  memory `shared`: lines, written by the host (protocol/chunk.py)
     ▼                                        │
    child/main.py        runs `grade` ────────┘  socket `channel`: which lines to grade; replies FILLED, FULL, DONE,
                                                LEAVING

In `completion` isolation a child has one line, which is in the template's memory when it forks
(template/fork_per_line.py). There is no channel and no shared memory.

`zygote.py` runs outside of every sandbox: forks of it become pid 1. `kernel/` wraps kernel interfaces, `warmup/` does
work before a sandbox is needed.
"""
