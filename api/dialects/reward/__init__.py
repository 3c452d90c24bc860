"""What RewardClient of adaptive-sdk speaks: each grader is a reward server at `/reward/{project}/{grader}`."""
