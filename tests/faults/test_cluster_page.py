"""The commands of the page on clusters, run as they are on a standalone cluster."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hushtable
from hushtable.datasets import sample

PAGE = Path(__file__).parents[2] / "docs/how-to/run-on-a-cluster.md"


def commands() -> list[str]:
    """Return the code blocks of the section that is run."""
    section = re.search(r"^## Step by step.*?(?=^## )", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert section is not None
    return re.findall(r"^```sh\n(.*?)^```", section[0], re.DOTALL | re.MULTILINE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


KILL = """
(until compgen -G 'work/app-*-0002/*/stderr' > waited; do sleep 0.2; done
sleep 3; kill -9 $WORKER) &
"""


def script(port: int) -> str:
    """Return the commands of the page; a worker is killed while the last program runs."""
    first, *others, last = commands()
    before, submit, after = last.rpartition("spark-submit")
    blocks = [f"{first}\nWORKER=$!", *others, before + KILL + submit + after]
    return "\n".join(blocks).replace("7077", str(port))


@pytest.mark.long
def test_the_page_works_as_it_says(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark", reason="no Spark: pip install 'hushtable[spark]'")
    if shutil.which("java") is None:
        pytest.skip("no Java: apt install openjdk-17-jre-headless (or set JAVA_HOME and PATH)")
    pq.write_table(sample(), tmp_path / "visits.parquet")
    shutil.copy(str(files("hushtable") / "sample_schema.yaml"), tmp_path / "schema.yaml")
    home = Path(pyspark.__file__).parent
    programs = [str(Path(sys.executable).parent), str(home / "bin"), os.environ["PATH"]]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(programs),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_WEBUI_PORT": "0",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    (tmp_path / "page.sh").write_text(script(free_port()))
    said = tmp_path / "said"
    with said.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-eu", "page.sh"], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            cwd=tmp_path, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            returned = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the cluster
    assert returned == 0, said.read_text()[-3000:]
    assert (tmp_path / "waited").stat().st_size > 0, "the worker was not killed"
    for name in ("quilt", "diffgen", "counts"):
        assert hushtable.Release.load(tmp_path / name).count("sex = 'F'").low > 0
    assert len(hushtable.Ledger.open(tmp_path / "visits.ledger").entries()) == 3
    logs = [path for path in (tmp_path / "work").rglob("std*") if path.is_file()]
    assert logs
    assert not any("Exception" in path.read_text(errors="replace") for path in logs)
