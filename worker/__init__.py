"""Scores the chunks of batches. A chunk to be scored by one grader is a unit: workers lease units from Redis, and RQ
only tells a worker that there are some.

    main.py, process.py  one worker process: its threads; RQ's loop, and what a signal does
    dispatch.py          calls of workers, also by the API; jobs.py: the job that a call runs
    scoring_loop.py      scores units one after another; scoring_threads.py: beside the job, or in its place
    unit_queue.py        leases units for a loop, and gives them back
    unit.py              scores one unit; unit_watch.py: whether to go on with it
    loaded_grader.py     the sandbox with a grader, kept between units
    outcome_writer.py    writes outcomes to the spool, and then to Redis, from when on they count
    heartbeat.py         renews the leases of this worker, and gives back those of workers that died
    environments/        builds environments
    run_file.py          `gradebox run`, without a service
"""
