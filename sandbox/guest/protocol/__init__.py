"""What host, supervisor, template and child send each other: frames, the channels that carry them, chunks."""
