"""What one NVIDIA GPU shows of the copies, the recovery, the readers and the planner: `python -m benchmarks.gpu`."""
