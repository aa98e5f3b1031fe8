"""For authors of methods: what every method must keep, as checks that anybody can run.

`check_listing` looks at the parts of a method, `check_method` tries all laws on an `Example`, and
`check_audit` sets the auditor on it. `CHECKS` has the laws one by one, for test runners::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_the_contract(check, tmp_path):
        check(Example(MyMethod(epsilon=1)), tmp_path)

hushtable's own methods are held to the same checks, by its own tests.
"""

from hushtable.audit.cases.case import Case
from hushtable.audit.run import audit
from hushtable.testing.auditing import check_audit, check_audit_sees
from hushtable.testing.estimator import check_estimator
from hushtable.testing.example import Example
from hushtable.testing.expect import ContractError
from hushtable.testing.laws import CHECKS, check_method
from hushtable.testing.parts import check_listing, check_proof, check_source

__all__ = [
    "CHECKS",
    "Case",
    "ContractError",
    "Example",
    "audit",
    "check_audit",
    "check_audit_sees",
    "check_estimator",
    "check_listing",
    "check_method",
    "check_proof",
    "check_source",
]
