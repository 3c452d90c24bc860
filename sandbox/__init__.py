"""Isolation: all that starts, feeds and limits sandboxes.

    guest/      the code that runs inside
    grading/    scores and proves with one grader, and checks all that a sandbox sends; session.py is the host's side
    pool/       started and loaded sandboxes, which projects share
    kernel/     what the kernel enforces: system calls, memory, processor time, user ids
    backends/   bubblewrap and Docker
    image.py    the root file system of sandboxes
    doctor/     tests each layer on this machine
    hostile/    graders that attack, for `gradebox selftest`

Nothing here knows HTTP, Redis or RQ.
"""
