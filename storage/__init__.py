"""All data of the service: Redis has what changes, the spool has large files that do not change.

    store.py       opens all of it, once per process
    batches/       batches: their records, threads, retries and feedback; the small form of ended ones
    queue/         the units of work of batches: leased to workers, bounded and counted
    outcomes/      outcomes, as they were scored or recorded, and the indexes for pages of the table
    statistics/    tallies and summaries of outcomes, and warnings about rewards
    graders/       graders and their versions
    environments/  environments: records, builds, contents and data
    models/        models and endpoints of projects: records, limits, spending and kept replies
    access/        API keys, sessions, projects, quotas and the audit log
    spool/         the spool, uploads into it, and the janitor, which removes what has expired or belongs to nothing
    lua/           scripts that run in Redis: each is one transaction

`redis_keys.py` has the names of all keys in Redis.
"""
