"""Latency of the release explorer of an Adult release under a constant request rate.

``python -m benchmarks.analyst_page [--seconds 60] [--rate 100]`` publishes Adult with quilt (or
uses ``--release FOLDER``), starts ``hushtable serve`` in a separate process, and sends requests at
a fixed rate without waiting for earlier responses. Half of the requests load the whole page. The
others are the requests that the page sends: answers and grouped answers. One in
fifty is a question that is not cached. It prints latencies, and the server's memory before and
after.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, urlsplit

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"  # the folder that tests use, too

QUESTIONS = [
    "where=sex = 'Female'", "where=age >= 40", "where=age BETWEEN 20 AND 29 AND sex = 'Male'",
    "by=sex", "by=education", "by=income&by=sex", "where=income = '>50K'&by=education",
    'where="hours-per-week" > 40&by=income',
]  # fmt: skip


def paths(columns: Iterable[str]) -> list[str]:
    """Return the addresses of the requests of the page."""
    asked = [*QUESTIONS, *(f"by={name}" for name in columns)]
    return [f"/answer?{quote(question, safe='=&')}" for question in asked]


async def ask(host: str, port: int, path: str, pool: asyncio.Queue[tuple]) -> tuple[int, float]:
    """Send one request over a persistent connection; return its status and its seconds."""
    begun = time.perf_counter()
    try:
        reader, writer = pool.get_nowait()
    except asyncio.QueueEmpty:
        reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    assert length is not None, head
    await reader.readexactly(int(length[1]))
    pool.put_nowait((reader, writer))
    return int(head.split()[1]), time.perf_counter() - begun


async def load(root: str, asked: list[str], *, rate: float, seconds: float) -> list[tuple]:
    """Send requests at a fixed rate."""
    place = urlsplit(root)
    assert place.hostname
    assert place.port
    pool: asyncio.Queue[tuple] = asyncio.Queue()
    draw, tasks, begun = random.Random(0), [], time.perf_counter()  # noqa: S311 - a load
    for number in range(int(rate * seconds)):
        wait = begun + number / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        path = "/" if draw.random() < 0.5 else draw.choice(asked)
        if number % 50 == 49:
            low = draw.randint(17, 80)
            clause = f'age BETWEEN {low} AND {low + number % 10} AND "hours-per-week" > {number}'
            path = f"/answer?where={quote(clause)}"
        tasks.append(asyncio.create_task(ask(place.hostname, place.port, path, pool)))
    return list(await asyncio.gather(*tasks))


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def publish_adult(folder: Path) -> Path:
    """Publish Adult with quilt."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from hushtable import Quilt, publish
    from hushtable_papers.adult import adult

    table, schema = adult(DATA)
    return publish(table, schema, Quilt(epsilon=1, delta="1e-6"), out=folder / "adult").folder


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--release", type=Path)
    options.add_argument("--rate", type=float, default=100)
    options.add_argument("--seconds", type=float, default=60)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as work:
        release = given.release or publish_adult(Path(work))
        server = subprocess.Popen(
            [sys.executable, "-m", "hushtable.cli.app", "serve", release, "--port", "0"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            root = re.search(r"http://\S+", server.stdout.readline())
            assert root is not None
            from hushtable import Release

            asked = paths(Release.load(release).schema.attributes)
            first = asyncio.run(load(root[0], asked, rate=2, seconds=len(asked)))
            print(f"first answers: slowest {max(t for _, t in first):.2f} s")
            before = memory_mb(server.pid)
            done = asyncio.run(load(root[0], asked, rate=given.rate, seconds=given.seconds))
            took = sorted(seconds for _, seconds in done)
            bad = [status for status, _ in done if status != 200]
            at = {share: 1000 * took[int(share * (len(took) - 1))] for share in (0.5, 0.95, 1.0)}
            print(
                f"{len(done)} requests at {given.rate:g} a second: p50 {at[0.5]:.0f} ms, "
                f"p95 {at[0.95]:.0f} ms, slowest {at[1.0]:.0f} ms, {len(bad)} failed"
            )
            print(
                f"memory of the server: {before:.0f} MB before, {memory_mb(server.pid):.0f} after"
            )
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
