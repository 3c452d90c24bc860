"""HTTP to the servers of models and endpoints, which tenants choose."""
