"""Kueue for the sandbox: its own definitions, and a stand-in for what it decides."""
