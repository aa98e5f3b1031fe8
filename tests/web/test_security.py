"""Only authenticated browsers get access, and only pages of the workbench can write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from hushtable.cli.web import serve
from hushtable.cli.web import workbench as start_workbench
from hushtable.errors import ParameterError
from hushtable.web import words
from hushtable.web.app import ROUTES, make_release_explorer, make_workbench, require_loopback
from hushtable.web.security import POLICY, TokenGate, own_names

from .workbench_client import MAX_UPLOAD, PORT, WorkbenchClient, problems

SCREENS = ["", "data", "schema", "ledger", "plan", "advisor", "dry-run", "publish", "report"]
WRITES = [route.path for route in ROUTES if route.methods and "POST" in route.methods]


def filled(path: str) -> str:
    return path.replace("{project}", "visits").replace("{job}", "0001")


def test_there_are_write_endpoints_to_test() -> None:
    assert len(WRITES) > 12
    assert all(isinstance(route, Route) for route in ROUTES)


def test_writes_require_the_csrf_token(project: WorkbenchClient) -> None:
    before = files(project.folder)
    for path in WRITES:
        for given in ({}, {"csrf": "0" * 64}):
            answer = project.browser.post(filled(path), data=given)
            assert answer.status_code == 403, path
            assert "Nothing was done" in problems(answer)[0]
            assert files(project.folder) == before, path


def test_csrf_tokens_differ_between_browsers(workbench: WorkbenchClient) -> None:
    other = workbench.new_browser()
    assert workbench.csrf() != workbench.csrf(other)
    answer = other.post("/projects", data={"csrf": workbench.csrf(), "name": "x"})
    assert answer.status_code == 403


@pytest.mark.parametrize("cookies", [{}, {f"hushtable-{PORT}": "made.up"}])
def test_pages_require_the_cookie(project: WorkbenchClient, cookies: dict[str, str]) -> None:
    stranger = TestClient(project.app, base_url=f"http://127.0.0.1:{PORT}", cookies=cookies)
    for path in (*(f"/p/visits/{screen}" for screen in SCREENS), "/", "/projects"):
        answer = stranger.get(path)
        assert answer.status_code == 403, path
        assert "visits" not in answer.text


@pytest.mark.parametrize("token", ["", "wrong", "0" * 43, "\u00e4"])
def test_a_wrong_token_is_rejected(workbench: WorkbenchClient, token: str) -> None:
    stranger = TestClient(workbench.app, base_url=f"http://127.0.0.1:{PORT}")
    answer = stranger.get("/", params={"token": token})
    assert answer.status_code == 403
    assert not stranger.cookies


def test_the_cookie_is_protected_from_scripts_and_other_sites(workbench: WorkbenchClient) -> None:
    stranger = TestClient(
        workbench.app, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False
    )
    answer = stranger.get(f"/?token={workbench.door.token}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert answer.headers["location"] == "/"  # the token does not stay in the address
    assert workbench.door.token not in cookie


def test_a_ticket_works_once_and_the_token_always(workbench: WorkbenchClient) -> None:
    ticket = workbench.door.new_ticket()
    assert ticket not in repr(workbench.door)
    answers = []
    for _ in range(2):
        stranger = TestClient(workbench.app, base_url=f"http://127.0.0.1:{PORT}")
        answers.append(stranger.get("/", params={"token": ticket}).status_code)
    assert answers == [200, 403]
    assert workbench.new_browser().get("/").status_code == 200


def test_the_browser_is_opened_with_a_ticket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doors: list[TokenGate] = []
    launched: list[str] = []

    def run(app: Any, held: Any, *, ready: Any) -> None:
        ready()
        held.close()

    def make(*_: Any, gate: TokenGate, **__: Any) -> None:
        doors.append(gate)

    monkeypatch.setattr("hushtable.web.app.run", run)
    monkeypatch.setattr("hushtable.web.app.make_workbench", make)
    monkeypatch.setattr("typer.launch", launched.append)
    start_workbench(tmp_path / "workbench")
    (door,), (address,) = doors, launched
    assert door.token not in address  # other users can read the process list
    assert door.token in capsys.readouterr().out
    assert door.admits(address.partition("token=")[2])


def test_there_are_no_websockets(workbench: WorkbenchClient) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        workbench.browser.websocket_connect("/", headers={"origin": "http://evil.example"}),
    ):
        pass
    assert refused.value.code == 1008


def test_on_the_default_port_the_name_is_sufficient(workbench: WorkbenchClient) -> None:
    app = make_workbench(
        workbench.app.state.bench, gate=workbench.door, port=80, max_upload=MAX_UPLOAD
    )
    answers = [
        TestClient(app, base_url=f"http://{host}").get("/").status_code
        for host in ("127.0.0.1", "localhost", "evil.example")
    ]
    assert answers == [403, 403, 400]  # no token yet; a foreign name


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1"]
)
def test_a_foreign_host_is_rejected(workbench: WorkbenchClient, host: str) -> None:
    for path in ("/", f"/?token={workbench.door.token}", "/static/style.css"):
        answer = workbench.browser.get(path, headers={"host": host}, follow_redirects=False)
        assert answer.status_code == 400
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
     {"sec-fetch-site": "same-site"}],
)  # fmt: skip
def test_a_write_from_another_site_is_refused(
    workbench: WorkbenchClient, headers: dict[str, str]
) -> None:
    given = {"csrf": workbench.csrf(), "name": "stolen"}
    answer = workbench.browser.post("/projects", data=given, headers=headers)
    assert answer.status_code == 403
    assert not (workbench.folder / "stolen").exists()


def test_every_page_has_its_headers(project: WorkbenchClient) -> None:
    assert "unsafe" not in POLICY
    for screen in SCREENS:
        answer = project.get(f"/p/visits/{screen}")
        assert answer.status_code == 200, screen
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        # The pages contain nothing that the policy would block.
        for what in ("<script>", " style=", " onclick=", 'src="http', 'href="http'):
            assert what not in answer.text, screen


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../outside.csv",
        "visits/../../outside.csv",
        "link.csv",
        "~/x.csv",
        "a\0b.csv",
    ],
)
def test_a_path_outside_is_refused(workbench: WorkbenchClient, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside.csv").write_text("a\n1\n")
    (workbench.folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    workbench.post("/projects", name="visits")
    answer = workbench.post("/p/visits/data", other=path)
    assert answer.status_code == 400
    assert problems(answer)
    assert "data" not in (workbench.folder / "visits" / "project.json").read_text()


def test_links_out_of_the_folder_are_refused(project: WorkbenchClient, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "project.json").write_text("{}")
    (outside / "report.html").write_text("<p>SECRET</p>")
    (project.folder / "linked").symlink_to(outside)
    assert "linked" not in project.get("/").text
    assert project.get("/p/linked/").status_code == 400
    for room in ("reports", "dry-runs", "releases"):
        (project.folder / "visits" / room).mkdir(exist_ok=True)
    (project.folder / "visits" / "reports" / "one.html").symlink_to(outside / "report.html")
    (project.folder / "visits" / "dry-runs" / "001").symlink_to(outside)
    (project.folder / "visits" / "releases" / "one").symlink_to(outside)
    for path in ("reports/one.html", "dry-runs/001", "releases/one.zip", "releases/one/look/"):
        answer = project.get(f"/p/visits/{path}")
        assert answer.status_code == 400, path
        assert "SECRET" not in answer.text


def test_a_copied_project_cannot_read_tables_outside(
    project: WorkbenchClient, tmp_path: Path
) -> None:
    (tmp_path / "outside.csv").write_text("age\n41\n")
    for path in (tmp_path / "outside.csv", project.folder / "link.csv"):
        if path.parent == project.folder:
            path.symlink_to(tmp_path / "outside.csv")
        (project.folder / "visits" / "project.json").write_text(json.dumps({"data": str(path)}))
        assert project.get("/p/visits/data").text.count(">age<") == 0
        answer = project.post("/p/visits/draft")
        assert "outside of the allowed folders" in problems(answer)[0]


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden", "", "x" * 65, "a b", "é"])
def test_a_project_is_a_plain_folder(workbench: WorkbenchClient, name: str) -> None:
    before = files(workbench.folder.parent)
    assert workbench.post("/projects", name=name).status_code == 400
    assert files(workbench.folder.parent) == before


def test_an_upload_is_private_and_bounded(workbench: WorkbenchClient) -> None:
    workbench.post("/projects", name="visits")

    def send(name: str, content: bytes) -> Any:
        return workbench.browser.post(
            "/p/visits/upload", data={"csrf": workbench.csrf()}, files={"file": (name, content)}
        )

    assert send("people.csv", b"age\n41\n").status_code == 200
    place = Path(workbench.app.state.bench.project("visits").settings["data"])
    assert place.read_bytes() == b"age\n41\n"
    assert place.stat().st_mode & 0o077 == 0
    assert place.parent.stat().st_mode & 0o077 == 0
    assert send("people.csv", b"x" * (MAX_UPLOAD + 1)).status_code == 413
    for name in (
        "../people.csv",
        "people.exe",
        ".csv",
        "..\\people.csv",
        "é.csv",
        "x" * 70 + ".csv",
    ):
        assert send(name, b"age\n41\n").status_code == 400, name
    send("Staff survey (2025) é.csv", b"age\n41\n")
    place = Path(workbench.app.state.bench.project("visits").settings["data"])
    assert place.name == "Staff-survey-2025.csv"
    form = workbench.browser.post("/projects", data={"csrf": workbench.csrf(), "name": "x" * 2**20})
    assert form.status_code == 413


def test_a_body_longer_than_it_declares_is_stopped(workbench: WorkbenchClient) -> None:
    def chunks() -> Any:
        yield b"csrf="
        for _ in range(40):
            yield b"x" * 100_000

    answer = workbench.browser.post(
        "/projects", content=chunks(),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert answer.status_code == 413


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", ""])  # noqa: S104
def test_the_workbench_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(ParameterError, match=r"must be 127\.0\.0\.1, ::1 or localhost"):
        require_loopback(host, 80)
    require_loopback("127.0.0.1", 80)


def test_an_unexpected_error_shows_only_its_type(
    project: WorkbenchClient, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise KeyError("a private value")

    monkeypatch.setattr("hushtable.web.pages.projects.next_step", fails)
    answer = project.get("/p/visits/")
    assert answer.status_code == 500
    assert "KeyError" in answer.text
    assert "private value," not in answer.text
    assert "a private value" not in answer.text + "".join(capfd.readouterr())


def test_markup_is_shown_as_text(workbench: WorkbenchClient) -> None:
    evil = "<img src=x onerror=alert(1)>"
    (workbench.folder / "evil.csv").write_text(f'age,"{evil}"\n1,a\n2,b\n')
    workbench.post("/projects", name="visits")
    workbench.post("/p/visits/data", path=str(workbench.folder / "evil.csv"))
    (workbench.folder / "visits" / "schema.yaml").write_text(
        f"name: '{evil}'\ncolumns:\n  '{evil}': {{type: categorical, values: ['{evil}', b]}}\n"
    )
    workbench.post("/p/visits/ledger", epsilon="1")
    for screen in ("data", "schema", f"schema/tree?column={evil}", "ledger", "plan", "publish"):
        text = workbench.get(f"/p/visits/{screen}").text
        assert "<img" not in text, screen
    assert "&lt;img" in workbench.get("/p/visits/data").text
    refusal = workbench.get(f"/p/{evil}/")
    assert refusal.status_code == 400
    assert "<img" not in refusal.text


@pytest.mark.parametrize("path", ["/", "/answer", "/rows.csv"])
def test_the_explorer_accepts_only_its_own_names(release: Any, path: str) -> None:
    page = make_release_explorer(release, names={*own_names(PORT), "clinic.example:8443"})
    client = TestClient(page)
    answered = {
        host: client.get(path, headers={"host": host}).status_code
        for host in (
            f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}",
            "clinic.example:8443", "clinic.example", f"evil.example:{PORT}", "localhost", "",
            f"localhost:{PORT}.evil.example",
        )
    }  # fmt: skip
    assert list(answered.values()) == [200] * 5 + [400] * 5
    refused = client.get(path, headers={"host": "evil.example"})
    assert refused.text == words.UNKNOWN_NAME
    assert refused.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        ({}, {"127.0.0.1", "localhost"}),
        ({"name": ["Clinic.example"]}, {"127.0.0.1", "localhost", "clinic.example"}),
        ({"host": "0.0.0.0"}, {"127.0.0.1", "localhost", "clinic.example", "evil.example"}),  # noqa: S104
        ({"host": "0.0.0.0", "name": ["clinic.example"]},  # noqa: S104
         {"127.0.0.1", "localhost", "clinic.example"}),
    ],
    ids=["loopback", "behind a proxy", "open to all", "open under a name"],
)  # fmt: skip
def test_serve_configures_its_host_names(
    release: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], hosts: set[str]
) -> None:
    answered = set()

    def run(app: Any, held: Any, *, root_path: str, ready: Any) -> None:
        port = held.getsockname()[1]
        held.close()
        for host in ("127.0.0.1", "localhost", "clinic.example", "evil.example"):
            named = f"{host}:{port}" if "." not in host or host[0].isdecimal() else host
            if TestClient(app, base_url=f"http://{named}").get("/answer").status_code == 200:
                answered.add(host)

    monkeypatch.setattr("hushtable.web.app.run", run)
    serve(release.folder, **{"port": 0, **options})
    assert answered == hosts


@pytest.mark.parametrize("path", ["/", "/answer", "/rows.csv"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_explorer_is_read_only(release: Any, path: str, method: str) -> None:
    client = TestClient(make_release_explorer(release))
    refused = client.request(method, path)
    assert refused.status_code == 405
    assert refused.headers["content-security-policy"] == POLICY


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
