"""`python -m setpoint serve`."""

import sys

from setpoint._command import main

sys.exit(main(sys.argv[1:]))
