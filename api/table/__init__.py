"""The table of a batch's outcomes: pages of it, its errors in groups.

    making.py       what there is of a grader's outcomes; has the program of `numbers` make their index, and search
    page.py         one page
    lines.py        the lines of outcomes and threads that it shows
    rows.py         what it shows of each
    completions.py  what a thread's completion is, from its line

The program alone has NumPy: a page is read by ranges of the index.
"""
