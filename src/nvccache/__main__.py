"""`python -m nvccache` does what `nvccache` does, but Python is isolated only if `-I` is given."""

import os
import sys

if __name__ == "__main__" and not sys.flags.isolated:
    # Python looks for modules in the working directory first, but a checkout may have a `signal.py`.
    try:
        if sys.path[0] == os.getcwd():
            del sys.path[0]
    except OSError:  # the working directory was removed
        pass

from nvccache import require_linux

if __name__ == "__main__":
    require_linux()
    from nvccache.entry_point import main

    sys.exit(main())
