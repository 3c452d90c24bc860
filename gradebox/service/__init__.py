"""The whole service on one machine: the API, workers and a Redis, started and watched over."""
