"""Contract checks for authors of methods.

`check_spec` checks the parts of a method, `check_method` checks all laws on an `Example`, and
`check_audit` runs the auditor. `CHECKS` contains the laws individually, for test runners::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_the_contract(check, tmp_path):
        check(Example(MyMethod(epsilon=1)), tmp_path)

The methods of hushtable are tested with the same checks.
"""

from hushtable.audit.cases.case import Case
from hushtable.audit.run import audit
from hushtable.testing.auditing import check_audit, check_audit_sees
from hushtable.testing.estimator import check_estimator
from hushtable.testing.example import Example
from hushtable.testing.expect import ContractError
from hushtable.testing.laws import CHECKS, check_method
from hushtable.testing.parts import check_proof, check_source, check_spec

__all__ = [
    "CHECKS",
    "Case",
    "ContractError",
    "Example",
    "audit",
    "check_audit",
    "check_audit_sees",
    "check_estimator",
    "check_method",
    "check_proof",
    "check_source",
    "check_spec",
]
