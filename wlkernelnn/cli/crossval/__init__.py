"""``wlkernelnn train --cv``."""
