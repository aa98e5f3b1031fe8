"""The list of mutants fits the source; ``make test-mutants`` runs them."""

from __future__ import annotations

import ast

from benchmarks.mutants import ROOT, mutants


def test_each_mutant_changes_one_place_and_names_tests() -> None:
    listed, problems = mutants(), []
    for mutant in listed:
        text = (ROOT / "src" / "hushtable" / mutant.file).read_text(encoding="utf-8")
        try:
            changed = mutant.applied(text)
            ast.parse(changed)
        except (ValueError, SyntaxError) as error:
            problems.append(f"{mutant.file}: {error}")
        problems += [test for test in mutant.tests if not (ROOT / test).is_file()]
    assert not problems
    assert len(listed) >= 60
