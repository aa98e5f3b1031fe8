"""The command line: thin over the library."""


def main() -> None:
    """Run the command line; importing this imports none of it."""
    from hushtable.cli.app import main as run  # noqa: PLC0415 - whoever imports a part needs no app

    run()
