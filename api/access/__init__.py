"""Who may do what, how much of it at once, and whom the service may ask elsewhere."""
