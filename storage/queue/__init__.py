"""The units of work of batches: leased to workers, bounded and counted."""
