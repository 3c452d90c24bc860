"""API keys, sessions, projects, their quotas, and the audit log."""
