"""How bodies are read: within their limits, without parsing what tenants wrote inside threads."""
