"""Script that publishes a file with quilt, as a custodian would."""

import sys

from hushtable.methods.quilt.quilt import Quilt
from hushtable.publishing.publish import publish
from hushtable.schema import Schema


def main() -> None:
    rows, schema, epsilon, delta, target, out = sys.argv[1:]
    method = Quilt(epsilon=epsilon, delta=delta, target=target or None)
    publish(rows, Schema.load(schema), method, out=out)


if __name__ == "__main__":
    main()
