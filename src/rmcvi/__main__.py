"""`python -m rmcvi` is `rmcvi`: it looks for modules where that would, not beside the data."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from rmcvi.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
