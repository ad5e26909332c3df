"""The command without its installed script, for tests that run another source tree."""

from hyperpod_ray.cli.main import script

if __name__ == "__main__":
    script()
