"""What runs inside a sandbox, mounted read-only: standard library only, but for the parser that parser.py tells of.

supervisor   pid 1: never runs user code, alone holds the host's channel, keeps the deadlines
  template   has loaded the grader once; forks when the supervisor asks
    child    grades: one completion, or as many as it lives through
"""
