"""The command `hyperpod-ray`. Nothing else imports this package; it imports the others when a command runs."""
