"""docker-compose.yml on a Docker engine: ``make compose-check``."""
