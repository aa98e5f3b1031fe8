"""The explorer in one file: its answers are those of the library, and it reaches no network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import hushtable
from browser import CHROMIUM, Browser
from hushtable import Quilt, Release, publish, sample, sample_schema
from hushtable.web.explorer_page import explorer_page
from hushtable.web.questions import figure_of, parts_of

SCRIPT = Path(hushtable.__file__).parent / "web" / "explorer" / "explorer.js"

ASK = """
const fs = require("fs");
const { lookUp, clauseOf, fromHash, toHash, toCsv, cell } = require(process.argv[2]);
const content = JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
let state = Number(process.argv[4]);
const draw = (n) => { state = (state * 48271) % 2147483647; return state % n; };
const some = (items) => items[draw(items.length)];
const asked = [];
while (asked.length < 400) {
  const [kind, of] = draw(2) ? ["", ""] : some(content.whats);
  const by = [...new Set(Array.from({ length: draw(3) }, () => some(content.columns).name))];
  const filters = Array.from({ length: draw(3) }, () => some(content.columns)).map((one) =>
    [one.name, [...new Set(Array.from({ length: 1 + draw(2) }, () => draw(one.groups.length)))]]);
  const names = filters.map(([name]) => name);
  if (new Set(names).size < names.length) continue;
  const question = { kind, of, what: kind && `${kind} of ${of}`, by, filters, where: "" };
  const same = JSON.stringify(fromHash(content, toHash(question))) === JSON.stringify(question);
  const rows = lookUp(content, question);
  const csv = rows && toCsv(rows, by, question.what);
  asked.push([question, same, clauseOf(content, question), rows, csv]);
}
console.log(JSON.stringify(asked));
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    out = tmp_path_factory.mktemp("explorer") / "release"
    return publish(sample(), sample_schema(), Quilt(epsilon=1, delta="1e-9"), out=out)


@pytest.fixture(scope="module")
def page(release: Release) -> str:
    return explorer_page(release, lambda what, share: None, max_sets=500)


def content_of(page: str) -> str:
    return re.findall(r'<script type="application/json" id="content">(.*?)</script>', page)[0]


def test_answers_are_those_of_the_library(release: Release, page: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: install Node.js to test the page's script")
    (tmp_path / "content.json").write_text(content_of(page))
    (tmp_path / "ask.js").write_text(ASK)
    done = subprocess.run(
        [node, tmp_path / "ask.js", SCRIPT, tmp_path / "content.json", "20"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    n_known, n_several, known, columns = 0, 0, {}, release.schema.attributes
    for question, same, clause, rows, csv in json.loads(done.stdout):
        assert same, "an address does not repeat its question"
        what, of, by = question["kind"], question["of"], question["by"]
        filters = {
            name: places for name, places in question["filters"]
            if len(places) < len(parts_of(name, columns[name]))
        }  # fmt: skip
        involved = {*by, *filters}
        several = [name for name, p in filters.items() if len(p) > 1 and name not in by]
        possible = len(involved) <= (1 if what else 2) and len(several) <= (0 if what else 1)
        assert rows is None if not possible else rows is not None or several, question
        n_several += bool(rows and several)
        # The conditions as the library reads them select the same rows as the clause.
        if clause:
            assert release.count(clause).value >= 0
        if rows is None:
            continue
        expected = [len(filters.get(name, parts_of(name, columns[name]))) for name in by]
        assert len(rows) == len(csv.splitlines()) - 1 == math.prod(expected)
        for _, where, answer in rows:
            key = what, of, where
            if key not in known:
                known[key] = figure_of(release, what, of)(where or None)
            found = known[key]
            assert tuple(answer[:3]) == found.figures()
            assert answer[3:6] == pytest.approx([found.value, found.low, found.high], rel=1e-8)
            n_known += 1
    assert n_known > 500
    assert n_several > 10


def test_the_policy_allows_only_what_is_in_the_file(page: str) -> None:
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    style = page[page.index("<style>") + len("<style>") : page.index("</style>")]
    script = page[page.index("<script>") + len("<script>") : page.rindex("</script>")]
    for text, name in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert set(re.findall(r"https?://[^\"'\s]*", page)) == {"http://www.w3.org/2000/svg"}
    assert len(page) - len(content_of(page)) < 100_000


def test_texts_of_a_schema_are_not_markup(tmp_path: Path) -> None:
    given = sample_schema().to_dict()
    given["name"] = "</script><b>{{content}}"
    schema = hushtable.Schema.from_dict(given)
    out = tmp_path / "release"
    page = explorer_page(
        publish(sample(), schema, Quilt(epsilon=1, delta="1e-9", particles=1000), out=out),
        lambda what, share: None,
    )
    assert "<b>" not in page
    assert json.loads(content_of(page))["title"] == given["name"]
    assert page.count("</script>") == 2
    assert page.count('"method":') == 1


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt install chromium")
def test_the_page_answers_in_a_browser_without_requests(page: str, tmp_path: Path) -> None:
    file = tmp_path / "explore.html"
    file.write_text(page)
    with Browser() as browser:
        for width, dark in ((1280, False), (400, True)):
            browser.open(file, width=width, dark=dark)
            browser.value(
                "(() => { document.getElementById('what').value = 'mean\\nage';"
                " document.getElementById('by').value = 'diagnosis';"
                " document.getElementById('question').dispatchEvent(new Event('change')); })()"
            )
            assert browser.value("document.querySelectorAll('#chart circle').length") == 7
            assert browser.value("document.querySelectorAll('#table tbody tr').length") == 7
            assert "release.mean" in browser.value("document.getElementById('python').textContent")
            assert browser.value("document.documentElement.scrollWidth") <= width
            browser.value("document.getElementById('png').click()")
            asked = [url for url in browser.requests if not url.startswith("data:")]
            assert asked == [file.as_uri()]
            assert not browser.complaints
