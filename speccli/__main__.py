"""`python -m speccli`."""

from speccli.cli import main

main()
