"""Answers what graders ask of models, endpoints and other graders.

    scoring/  scores and validates with graders that ask: a sandbox is held only while a line runs, not while it waits
    asks/     one ask: parsed, limited, sent with retries, counted; equal asks are sent once
    servers/  HTTP to the servers, whose addresses tenants choose: the operator permits them
    replies/  replies of models: decoded, checked, and encoded for the sandbox

A grader's process never connects to a server: the host does it.
"""
