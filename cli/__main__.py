"""The command without its installed script, for tests that run another source tree."""

from cli.main import script

if __name__ == "__main__":
    script()
