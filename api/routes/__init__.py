"""The routes of /v1, and those beside it: a module for each resource."""
