"""What builds sandboxes, a module each."""
