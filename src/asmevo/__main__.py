"""`python -m asmevo` is the command `asmevo`."""

from asmevo.doors.start import main

if __name__ == "__main__":
    main()
