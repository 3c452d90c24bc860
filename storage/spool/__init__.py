"""Files: the spool, the chunks of a payload, and files that nothing needs."""
