"""HTTP: the API of the service. The pages of `ui/` call what its routes call.

main.py, app.py  the process and the application; services.py: what its handlers share
routes/          the API's own paths, a module for each resource
dialects/        the APIs of other services' clients
intake/          reads bodies, within their limits
access/          API keys and roles, callers without a key, and callers that wait
http/            the server, its limits of connections and memory, and problems
numbers/         statistics over outcomes, in processes of their own; table/: the table of a batch
telemetry/       metrics and logs of requests
readiness.py     what /readyz reports; shortages.py: what batches wait for
"""
