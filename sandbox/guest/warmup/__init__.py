"""Work done before a sandbox is needed: imports and a dry run, so that forked processes share the pages."""
