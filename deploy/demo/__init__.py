"""The demonstration: a real stack, documents that it makes itself, and a count at the end."""
