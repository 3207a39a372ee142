"""`python -m roller_capture` is the `roller-capture` command."""

from roller_capture.cli import main

if __name__ == "__main__":
    main()
