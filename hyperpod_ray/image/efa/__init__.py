"""What the image build does for EFA: `install.sh` installs, `check_plugin.py` proves that NCCL finds it."""
