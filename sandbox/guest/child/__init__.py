"""The process that grades: one completion, or the lines of one chunk after another until it ends."""
