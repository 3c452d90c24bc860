"""The requests of the client: one function for each."""
