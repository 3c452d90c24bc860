"""`python -m api`: one API process, until SIGTERM."""

import sys

sys.modules["rich"] = None  # type: ignore[assignment]  # structlog would import it: 0.1 s and 4 MB

from api.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
