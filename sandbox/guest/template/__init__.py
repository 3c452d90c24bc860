"""The process that has loaded the grader. It forks when the supervisor asks for a child, and grades nothing itself."""
