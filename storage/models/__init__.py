"""Models and endpoints of projects: their records, limits and costs."""
