"""Commands in the language of the scheduler that owns the target."""
