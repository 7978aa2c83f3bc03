"""`python -m kopf run`."""

import sys

from setpoint.kopf._cli import main

sys.exit(main())
