"""promptfoo's webhooks: each grader is one at `/promptfoo/v1/{project}/{grader}` (docs/promptfoo.md)."""
