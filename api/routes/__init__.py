"""What is answered at each path of /v1, and at the paths beside it: a module for each resource."""
