"""Coverage-guided fuzzing with atheris, which reaches branches that mutation alone rarely does."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import corpus, targets

ROOT = Path(__file__).resolve().parents[2]
SECONDS = int(os.environ.get("HUSHTABLE_FUZZ_SECONDS", "60"))
KEPT = os.environ.get("HUSHTABLE_FUZZ_CORPUS")
"""Folder of a corpus that grows from run to run; without it, each run starts from the seeds."""

GUIDED = """
import importlib, pkgutil, sys
import atheris
import hushtable.kernels

# Compiled functions cannot be followed, so they are loaded before anything is.
for module in pkgutil.iter_modules(hushtable.kernels.__path__):
    importlib.import_module(f"hushtable.kernels.{{module.name}}")
with atheris.instrument_imports(include=["hushtable", "yaml"]):
    sys.path.insert(0, {root!r})
    from tests.fuzz import targets

targets.release()
atheris.Setup(sys.argv, lambda data: targets.run({name!r}, data) and None)
atheris.Fuzz()
"""


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="pip install atheris")
@pytest.mark.parametrize("name", targets.TARGETS)
def test_guided_inputs(name: str, tmp_path: Path) -> None:
    inputs = Path(KEPT or tmp_path / "corpus").resolve() / name
    inputs.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(corpus.seeds()[name]):
        (inputs / f"seed{number}").write_bytes(seed)
    words = tmp_path / "words.txt"
    escaped = [
        "".join(f"\\x{byte:02x}" for byte in word.encode("utf-8", "surrogatepass"))
        for word in corpus.WORDS.get(name, [])
    ]
    words.write_text("".join(f'"{word}"\n' for word in escaped if len(word) < 400))
    script = tmp_path / "guided.py"
    script.write_text(GUIDED.format(root=str(ROOT), name=name))
    done = subprocess.run(
        [
            sys.executable, str(script), str(inputs), f"-max_total_time={SECONDS}",
            "-timeout=60", "-rss_limit_mb=4096", "-max_len=20000", "-print_final_stats=1",
            *([f"-dict={words}"] if words.stat().st_size else []),  # an empty one is refused
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    n_runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    print(f"\n{name}: {n_runs[1] if n_runs else '?'} inputs in {SECONDS} s")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert n_runs is not None
