"""`python -m gemmlab.site`."""

import sys

from gemmlab.site.build import main

sys.exit(main())
