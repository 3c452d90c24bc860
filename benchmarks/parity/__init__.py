"""The judges of unitxt and EvalAssist and ours, on the same scripted decisions: `python -m benchmarks.parity`.

Each case has decisions and settings. The real packages, in a separate environment, and our judges make numbers of them.
The case states whether the numbers must be equal, or what ours does better and why.
"""
