"""`python -m worker`: one worker process, until SIGTERM."""

import sys

sys.modules["rich"] = None  # type: ignore[assignment]  # structlog imports it where it is: 4 MB that no log needs

from worker.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
