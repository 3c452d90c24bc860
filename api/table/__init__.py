"""The table of a batch's outcomes: its pages, and its errors in groups.

    table_jobs.py   the available outcomes of a grader; runs the program of `numbers` to index and search them
    page.py         one page
    row_lines.py    the lines of outcomes and threads on a page
    outcome_row.py  the row made of each
    completions.py  extracts the completion of a thread from its line

Only the program imports NumPy: a page is read by ranges of the index.
"""
