"""`python -m tools.site`."""

import os
import sys

# Pages are the same wherever they are built: with the simulator's counts and recorded times.
os.environ["GEMMLAB_DEVICE"] = "simulator"

from tools.site.build import main

sys.exit(main())
