"""The table of a batch's outcomes: pages of it, its errors in groups.

making.py       has the index of a grader's outcomes made, and texts searched for, by the program of `numbers`
page.py         one page: rows of outcomes with the beginnings of their completions
completions.py  what a thread's completion is, from its line
"""
