"""All data of the service: Redis has what changes, the spool has large files that do not change.

    uploads.py     receives the threads of batches, cut into chunks while they stream, and data of environments
    janitor.py     removes what has expired or belongs to nothing
    store.py       opens all of it, once per process
    outcomes/      reading outcomes, retries of those with errors, feedback on them, indexes for pages of the table
    batches/       batches: their records, threads and recorded scores; the small form of ended ones
    queue/         the units of work of batches: leased to workers, bounded and counted
    statistics/    tallies and summaries of outcomes, and warnings about rewards
    graders/       graders and their versions
    environments/  environments: records, builds, contents and data
    models/        models and endpoints of projects: records, limits, spending and kept replies
    access/        API keys, sessions, projects, quotas and the audit log
    spool/         the spool: files in a folder or an object store, and their chunks
    lua/           scripts that run in Redis: each is one transaction

`redis_keys.py` has the names of all keys in Redis, `batch_plan.py` what a batch consists of. None of the above imports
what stands above it; a contract in `pyproject.toml` holds that.
"""
