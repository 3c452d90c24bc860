"""Runs the whole service on one machine: starts and monitors the API, the workers and a Redis."""
