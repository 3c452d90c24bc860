"""What each process of the service has in common, API and worker alike.

    starting.py         the start, and the exit codes of a process that cannot start
    supervised.py       the end with the process that started it
    periodic_thread.py  threads that no exception ends; thread_failures.py: threads that one has ended
    health_file.py      how a worker tells a container engine whether it can work
    metrics.py          metrics of a process; metrics_files.py: of several behind one address
    tracing.py          OpenTelemetry traces

Logs are in `gradebox/service/logs.py`.
"""
