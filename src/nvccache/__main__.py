"""`python -m nvccache`: the same as the `nvccache` executable."""

import sys

from nvccache.shim import main

if __name__ == "__main__":
    sys.exit(main())
