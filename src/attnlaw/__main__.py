"""`python -m attnlaw` is `attnlaw`."""

from attnlaw.cli import main

main(prog_name="attnlaw")
