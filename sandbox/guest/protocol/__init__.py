"""The protocol of host, supervisor, template and child.

frames.py         messages between host and supervisor
records.py        outcomes, from the child to the host
fields.py         the parts of an outcome, and their bounds
grader_limits.py  the limits that the host sends with a grader
channel.py        the supervisor's end of the channel to the host
chunk.py          the memory with the lines to grade
"""
