"""The protocol of host, supervisor, template and child: frames, the channels that carry them, chunks."""
