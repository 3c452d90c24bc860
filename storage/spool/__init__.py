"""Files: the spool, uploads into it, and the removal of files that nothing needs."""
