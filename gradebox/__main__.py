"""`python -m gradebox` is the command `gradebox`."""

from gradebox.cli import main

if __name__ == "__main__":
    main()
