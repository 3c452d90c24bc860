"""What a sandbox does before it is needed: imports, and a dry run, so that forks share the pages."""
