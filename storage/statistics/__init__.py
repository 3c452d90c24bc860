"""Statistics of outcomes: tallies, summaries, and warnings about rewards."""
