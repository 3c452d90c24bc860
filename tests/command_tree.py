"""Builds the tree of all commands once, which takes longer than most commands that tests run in a fork."""

import gc
from functools import cache

import typer.main

from gradebox.cli import app

typer.main.get_command = cache(typer.main.get_command)
typer.main.get_command(app)
gc.freeze()  # a collection in a fork would copy the pages of all that was imported
