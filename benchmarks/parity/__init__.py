"""The judges of unitxt and EvalAssist and ours, on the same scripted decisions: `python -m benchmarks.parity`.

Each case is decisions and settings. The real packages make numbers of them, in an environment of their own, and so do
our judges. A case says whether the numbers are to be equal, or what ours does better and why.
"""
