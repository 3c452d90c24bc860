"""The server, and what applies to every request.

server.py            the configured server
bounded_protocol.py  one connection, bounded in time and size; websocket.py: one websocket
connections.py       how many connections a tenant has; tenant_memory.py: how much memory
slow_readers.py      clients that do not read; large_answers.py: answers that tenants take turns to get
problems.py          all errors, as responses; unfinished.py: those of a stop of the service
routers.py           routers for the API's own paths; query.py: their query parameters
openapi.py           the OpenAPI document
"""
