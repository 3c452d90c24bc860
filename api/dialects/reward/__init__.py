"""The protocol of adaptive-sdk's RewardClient: each grader is a reward server at `/reward/{project}/{grader}`."""
