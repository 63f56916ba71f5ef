"""`python -m rmcvi` is `rmcvi`."""

import sys

from rmcvi.cli import main

if __name__ == "__main__":
    sys.exit(main())
