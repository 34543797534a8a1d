"""The command line of a suite whose cases have numbers."""

import argparse
import importlib
import pkgutil
import sys

from . import broker


def choose(description, package, cases):
    """The options, and the cases to run, in their order. `cases` has the number and the name of each case first; the
    modules of the package add to it when they are imported.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--against", default="parshall", choices=broker.KINDS)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("row", nargs="*", help="numbers of rows (all)")
    options = parser.parse_args()
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    chosen = sorted((case for case in cases if not options.row or str(case[0]) in options.row), key=lambda case: case[:2])
    if not chosen:
        raise SystemExit("no case matches; --list shows what there is")
    if options.list:
        print("\n".join(f"{row} {name}" for row, name, *_ in chosen))
        sys.exit(0)
    return options, chosen
