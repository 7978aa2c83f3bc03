"""`python -m setpoint serve`."""

import sys

from setpoint import _command


def main() -> int:
    """Run the command line of this process."""
    return _command.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
