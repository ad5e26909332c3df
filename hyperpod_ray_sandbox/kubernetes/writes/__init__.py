"""Create, update, patch and delete, with the API server's checks around the store; `Api` is their face."""
