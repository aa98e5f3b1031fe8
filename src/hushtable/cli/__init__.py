"""The command line, a thin layer over the library."""


def main() -> None:
    """Import and run the command line."""
    from hushtable.cli.app import main as run  # noqa: PLC0415 - importing a part must not import all

    run()
