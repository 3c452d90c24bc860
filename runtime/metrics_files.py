"""The metrics of several processes of one machine behind one address: each worker periodically writes its metrics to a
file, and the API serves the metrics from these files together with those of the API process.

This is not prometheus_client's multiprocess mode, which maps its files into memory, so a full disk would end the
process.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from runtime.periodic_thread import PeriodicThread

WRITE_S = 5.0
LABEL = "worker"

_log = structlog.get_logger(__name__)


class MetricsFile(PeriodicThread):
    """A thread that writes a registry to a file every few seconds."""

    def __init__(self, registry: CollectorRegistry, path: Path) -> None:
        super().__init__("metrics-file", self.write, WRITE_S)
        self._registry = registry
        self._path = path

    def end(self) -> None:
        """Ends the thread and writes a last time."""
        super().end()
        self.join(timeout=1.0)
        self.write()

    def write(self) -> None:
        """Writes the registry to the file."""
        try:
            write_to_textfile(str(self._path), self._registry)
        except OSError as error:  # such as a full disk: the previous content of the file stays
            _log.warning("metrics cannot be written", file=str(self._path), again_in_s=WRITE_S, error=str(error))


class MergedMetrics(Collector):
    """The metrics of a registry and of the files in a folder, which a label with the file's name distinguishes."""

    def __init__(self, own: CollectorRegistry, folder: Path) -> None:
        self._own = own
        self._folder = folder

    def collect(self) -> Iterable[Metric]:
        """Each metric once, with the samples of all processes."""
        found = {metric.name: metric for metric in self._own.collect()}
        for metric in self._of_files():
            same = found.setdefault(metric.name, metric)
            if same is not metric and same.type == metric.type:
                same.samples += metric.samples
        return found.values()

    def _of_files(self) -> Iterator[Metric]:
        for path in sorted(self._folder.glob("*.prom")):
            try:
                for metric in text_string_to_metric_families(path.read_text("utf-8")):
                    metric.samples = [
                        sample._replace(labels={**sample.labels, LABEL: path.stem}) for sample in metric.samples
                    ]
                    yield metric
            except (OSError, ValueError) as error:
                _log.warning("metrics cannot be read", file=str(path), error=str(error))
