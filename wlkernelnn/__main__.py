"""``python -m wlkernelnn`` is the command ``wlkernelnn``."""

import sys

from wlkernelnn.cli.main import main

sys.exit(main())
