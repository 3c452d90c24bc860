"""`python -m api`: one API process, until SIGTERM."""

import gc
import sys

# structlog would import rich, and FastAPI pydantic.v1: 0.1 s and 4 MB, 0.07 s and 1.5 MB.
sys.modules["rich"] = sys.modules["pydantic.v1"] = None  # type: ignore[assignment]
gc.disable()  # imports leave no garbage, and collections take a seventh of the start. `main` enables them

from api.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
