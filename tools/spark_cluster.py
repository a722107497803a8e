"""A real Spark cluster on this machine: one master and two workers, each a process of its own.

`python -m tools.spark_cluster` starts one on the loopback interface, prints its address, and stops
it with Ctrl-C. The tests use `start_cluster`. Needs Java 17 and `pip install sfumato[spark]`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
_DAEMON = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k"
_PATIENCE = 60.0
_DIE_WITH_PARENT = 1


@dataclass(frozen=True)
class Cluster:
    """Where the cluster is, and the processes of its workers."""

    master: str
    workers: tuple[subprocess.Popen[bytes], ...]
    folder: Path

    def find_executors(self) -> list[int]:
        """The processes that the workers started for an application, by their numbers."""
        mine = {worker.pid for worker in self.workers}
        found = []
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            except OSError:
                continue  # it ended meanwhile
            if int(lines["PPid"]) in mine:
                found.append(int(lines["Pid"]))
        return found


def explain_missing() -> str:
    """What is lacking for a cluster, in words; empty if nothing is."""
    try:
        import pyspark  # noqa: F401 - only whether it is there
    except ImportError:
        return "PySpark is not installed: pip install sfumato[spark]"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "Java is not installed: apt-get install openjdk-17-jre-headless"
    return ""


@contextmanager
def start_cluster(*, workers: int = 2, cores: int = 1, memory: str = "1500m") -> Iterator[Cluster]:
    """Start a standalone cluster on free ports of the loopback interface, and stop it at the end.

    Parameters
    ----------
    workers : how many worker processes.
    cores, memory : what each of them offers.
    """
    port = _find_free_port()
    master = f"spark://{LOOPBACK}:{port}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-spark-")))
        own = ["--host", LOOPBACK, "--port", str(port), "--webui-port", "0"]
        stack.enter_context(_run("master.Master", own, folder / "master.log"))
        _wait_for(port)
        started = []
        for number in range(workers):
            place = folder / f"worker-{number}"
            own = ["--host", LOOPBACK, "--webui-port", "0", "--work-dir", str(place)]
            offer = ["--cores", str(cores), "--memory", memory, master]
            log = folder / f"worker-{number}.log"
            started.append(stack.enter_context(_run("worker.Worker", [*own, *offer], log)))
        yield Cluster(master, tuple(started), folder)


@contextmanager
def _run(role: str, arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One process of the cluster, which does not outlive us."""
    import pyspark

    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{role}",
        *arguments,
    ]
    settings = {
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON,
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            env={**os.environ, **settings},
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
        )
    try:
        yield process
    finally:
        process.terminate()  # a worker ends the executors it has started
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _die_with_parent() -> None:
    """Let Linux end this process when ours ends, however that happens."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def open_session(master: str, **settings: str) -> Any:
    """A session for tests and benchmarks: small, quiet, on the loopback interface."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    repository = str(Path(__file__).resolve().parents[1])
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executorEnv.PYTHONPATH": f"{repository}/src:{repository}",
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
    }
    builder = SparkSession.builder.master(master).appName("sfumato")
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    """Start a cluster and keep it until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--memory", default="1500m")
    given = parser.parse_args()
    if lacking := explain_missing():
        sys.exit(lacking)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with start_cluster(workers=given.workers, cores=given.cores, memory=given.memory) as cluster:
        print(cluster.master, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopped", flush=True)


if __name__ == "__main__":
    main()
