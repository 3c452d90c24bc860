"""Statistics over outcomes, computed by a program of their own.

    process.py     runs the program: what goes in, and its bounds
    program.py     the program: reads a job and streams of lines, prints JSON
    lines.py       what goes through its standard input
    jobs.py        what it is asked to do
    *_job.py       the jobs: a summary, a comparison, an agreement
    bootstrap.py   confidence intervals, by SciPy
    summaries.py   summaries of batches with their intervals

SciPy takes 80 MB of memory when it is imported, and computing with many outcomes holds the interpreter for seconds: in
the API's process, every request would wait for that. And what tenants sent is parsed where nothing but the program can
be lost. So no other process imports SciPy, and the program ends after each job.
"""
