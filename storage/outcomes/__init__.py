"""The outcomes of batches: reading them, and the indexes for pages of the table."""
