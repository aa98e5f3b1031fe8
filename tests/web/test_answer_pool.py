"""Queries of the release explorer run in workers: slow ones are canceled and hold up nobody."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from hushtable.errors import InternalError, ParameterError, Refused
from hushtable.release.release import Release
from hushtable.web import answer_pool, words
from hushtable.web.answer_pool import AnswerPool, Busy, TooSlow
from hushtable.web.app import listen, make_release_explorer, run
from hushtable.web.questions import AnswerCache

from .responder import respond


@pytest.fixture
def pool(release: Release, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnswerPool]:
    monkeypatch.setattr(answer_pool, "QUICK", 60.0)
    monkeypatch.setattr(answer_pool, "LIMIT", 120.0)
    made = AnswerPool(release.folder, respond)
    yield made
    made.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_slow(pool: AnswerPool, n: int) -> None:
    while answer_pool.SLOW - pool._slow._value < n:  # type: ignore[attr-defined]
        time.sleep(0.01)


def test_a_slow_query_is_canceled_and_others_are_answered_meanwhile(
    pool: AnswerPool, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pool.ask("pid")
    assert pool.ask("pid") == first, "a worker is kept"
    monkeypatch.setattr(answer_pool, "QUICK", 0.2)
    with ThreadPoolExecutor(3) as others:
        slow = [others.submit(pool.ask, "forever") for _ in range(2)]
        wait_until_slow(pool, 2)
        monkeypatch.setattr(answer_pool, "QUICK", 60.0)
        assert pool.ask("sex = 'F'") == release.count("sex = 'F'")
        assert not any(one.done() for one in slow)
        monkeypatch.setattr(answer_pool, "QUICK", 0.2)
        with pytest.raises(Busy):  # a third slow one ends after QUICK seconds
            pool.ask("forever")
        monkeypatch.setattr(answer_pool, "QUICK", 60.0)
        last = pool.ask("pid")
        assert last != first, "the worker of a canceled query is replaced"
        pids = {worker.process.pid for worker in pool._workers or ()}
        pool.close()
        for one in slow:
            with pytest.raises(Refused, match="being closed"):
                one.result()
    assert 3 <= len(pids) <= answer_pool.AT_ONCE + answer_pool.SLOW
    assert not any(map(is_running, pids)), "a closed pool leaves nothing behind"
    with pytest.raises(Busy):
        pool.ask("pid")


def test_a_query_is_canceled_at_the_limit(
    pool: AnswerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = pool.ask("pid")
    monkeypatch.setattr(answer_pool, "QUICK", 0.2)
    monkeypatch.setattr(answer_pool, "LIMIT", 0.4)
    with pytest.raises(TooSlow, match="was canceled"):
        pool.ask("forever")
    assert not is_running(pid)
    monkeypatch.setattr(answer_pool, "QUICK", 60.0)
    assert is_running(pool.ask("pid"))


def test_a_worker_that_fails_or_dies_says_so(pool: AnswerPool) -> None:
    with pytest.raises(InternalError, match="ValueError") as raised:
        pool.ask("fail")
    assert "must not be shown" not in str(raised.value)
    with pytest.raises(InternalError, match="MemoryError"):
        pool.ask("memory")
    with pytest.raises(ParameterError) as refused:
        pool.ask("refuse")
    assert refused.value.problems == ("one", "two")
    with pytest.raises(Refused, match="too much memory"):
        pool.ask("die")
    assert is_running(pool.ask("pid"))


# --- the page -------------------------------------------------------------------------------------


class Pool:
    """Stands for the workers, and raises what it is told to."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), 0

    def ask(self, query: Any) -> Any:
        self.asked += 1
        raise self.errors.pop(0)

    def close(self) -> None:
        pass


def test_a_canceled_question_is_not_repeated(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool(Busy(words.BUSY), TooSlow(words.TOO_SLOW.format(seconds=20)))
    monkeypatch.setattr("hushtable.web.questions.AnswerPool", lambda *_: pool)
    page = TestClient(make_release_explorer(release))
    problems = [page.get("/answer?where=age > 1").json()["problems"] for _ in range(3)]
    assert problems[0] == [words.BUSY]
    assert "was canceled" in problems[1][0]
    assert problems[1] == problems[2]
    assert pool.asked == 2


def test_workers_start_when_they_are_needed(release: Release) -> None:
    assert AnswerCache(release)._pool._workers == set()


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Serve a page as `hushtable serve` does."""
    monkeypatch.setattr("hushtable.web.app.REQUEST_SECONDS", 0.3)
    servers: list[uvicorn.Server] = []
    serve = uvicorn.Server.run
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: servers.append(self))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    held = listen("127.0.0.1", 0)
    run(app, held, ready=lambda: None)
    thread = threading.Thread(target=serve, args=(servers[0], [held]))
    thread.start()
    yield held.getsockname()
    servers[0].should_exit = True
    thread.join()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT"])
def test_a_connection_without_a_complete_request_is_closed(
    address: tuple[str, int], sent: bytes
) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(1000):
            received += part
    assert received.count(b"204 No Content") == sent.count(b"\r\n\r\n")
