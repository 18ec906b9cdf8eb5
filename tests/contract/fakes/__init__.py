"""Stand-ins for the remote services: real HTTP servers that keep to the published contracts."""
