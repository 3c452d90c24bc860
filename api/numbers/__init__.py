"""Statistics over outcomes, computed in a separate program.

    process.py         runs the program with its limits and input
    program.py         the program: reads a job and streams of lines, prints JSON
    lines.py           the format of its standard input
    jobs.py            its jobs
    *_job.py           the implementations: a summary, a comparison, an agreement; for tables, an index and a search
    outcome_column.py  the outcomes of one grader in few bytes each
    pair_counts.py     a grid of pairs of scores
    error_groups.py    groups of errors with similar messages
    bootstrap.py       confidence intervals, by SciPy
    summaries.py       summaries of batches with their intervals

Importing SciPy takes 80 MB of memory, and computing with many outcomes holds the interpreter for seconds, during which
every request in the API process would wait. The program also parses tenants' data, and a crash loses nothing but the
program. So no other process imports SciPy, and the program exits after each job.
"""
