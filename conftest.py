"""For all tests, the examples in docstrings included."""

pytest_plugins = ["repeatable", "cpu_costs", "compile_once"]
