"""The process that has loaded the grader. It forks a child at each request of the supervisor and grades nothing."""
