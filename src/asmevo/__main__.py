"""`python -m asmevo` is the command `asmevo`."""

from asmevo.doors.cli import main

if __name__ == "__main__":
    main()
