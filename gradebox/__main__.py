"""The command `gradebox`, which is also `python -m gradebox`."""

import gc

gc.set_threshold(50_000)  # imports leave no garbage, and collections take a tenth of a command's start

from gradebox.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
