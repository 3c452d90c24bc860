"""The process that grades: one completion, or the lines of a chunk for as long as it lives."""
