"""What operators ask and do: sweep, replay, verify, trace, doctor. Never part of a worker."""
