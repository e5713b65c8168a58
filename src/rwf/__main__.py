"""`python -m rwf` is `rwf`."""

import sys

from rwf.cli import main

sys.exit(main())
