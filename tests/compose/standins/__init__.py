"""Images that are built here where the real ones cannot be pulled: same interface, other inside."""
