"""Statistics over outcomes, computed in separate processes.

    run_job.py         runs a job with its limits and input
    program_client.py  starts the program, and asks it for forks
    job_program.py     the program: forks; a fork reads a job and streams of lines, prints JSON
    job_input.py       the format of a fork's standard input
    jobs.py            its jobs
    *_job.py           the implementations: summaries, a comparison, an agreement; for tables, an index and a search
    outcome_column.py  the outcomes of one grader in few bytes each
    metadata_labels.py labels in the metadata of threads
    pair_counts.py     a grid of pairs of scores
    error_groups.py    groups of errors with similar messages
    bootstrap.py       confidence intervals, by SciPy
    combined_summaries.py  summaries of combined outcomes, which the program computes
    summaries.py       summaries of batches with their intervals

Importing SciPy takes 80 MB of memory and most of a second, and computing with many outcomes holds the interpreter for
seconds, during which every request in the API process would wait. A job also parses tenants' data, and a crash loses
nothing but the job. So no other process imports SciPy. The program imports it when the first job needs it, and stays;
each job runs in a fork of its own, which exits after it.
"""
