"""The replies of models: parsed, checked, and encoded for the sandbox."""
