"""History replayed against the alerts: which would have fired, when, and of which cause."""
