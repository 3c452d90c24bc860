"""`python -m worker`: one worker process, until SIGTERM."""

import gc
import sys

# structlog would import rich, and redis the metrics of OpenTelemetry: 0.1 s and 4 MB, and 0.04 s.
sys.modules["rich"] = sys.modules["opentelemetry.sdk.metrics"] = None  # type: ignore[assignment]
gc.disable()  # imports leave no garbage, and collections take a seventh of the start

from worker.main import main  # noqa: E402

gc.freeze()  # so that collections do not traverse what was imported
gc.enable()

if __name__ == "__main__":
    sys.exit(main())
