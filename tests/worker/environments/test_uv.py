import socket
import subprocess
import sys
from pathlib import Path

from tests.processes import runs
from tests.waiting import eventually

RESOLVES = """
import sys
from pathlib import Path
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import Uv
Uv(Path(sys.argv[1]), EnvironmentSettings(environments_index=sys.argv[2]), 64).resolve(["six"], lambda: None)
"""


def test_a_killed_worker_leaves_no_uv(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:  # it accepts, and never answers
        index.settimeout(30)
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        worker = subprocess.Popen([sys.executable, "-c", RESOLVES, tmp_path, url])
        with index.accept()[0]:
            children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
            assert len(children) == 1
            worker.kill()
            worker.wait()
            eventually(lambda: not runs(int(children[0])), 2.0)
