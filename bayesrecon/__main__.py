"""`python -m bayesrecon`."""

from bayesrecon.cli.main import main

main()
