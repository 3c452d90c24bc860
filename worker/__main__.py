"""`python -m worker`: one worker process, until SIGTERM."""

import sys

sys.modules["rich"] = None  # type: ignore[assignment]  # structlog would import it: 0.1 s and 4 MB

from worker.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
