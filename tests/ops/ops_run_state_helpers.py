"""What tests of `ops_run_state`, `run_folders`, `run_plot` share."""

from __future__ import annotations

BEGIN = 1_790_000_000.0
