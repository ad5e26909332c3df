"""What runs inside the emulator process: MiniStack, and beside it the services and resource types it lacks.

Imported by `.venv-emulator` only. `hooks` is the one module that knows MiniStack's private names.
"""
