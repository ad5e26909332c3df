"""Changes of an environment: deploy, teardown, inventory, and waiting for both."""
