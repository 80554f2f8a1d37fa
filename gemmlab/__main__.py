"""`python -m gemmlab`."""

from gemmlab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
