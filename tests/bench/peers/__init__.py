"""What a user would write instead, each as a process: `python -m tests.bench.peers.NAME SETTINGS`.

All do the same work for an event of one document: fetch the source, submit it, poll by doubling,
fetch the image, write image and manifest, produce the result, commit. None keeps a job record or a
ledger, validates, retries, or finds anything again after a crash: each does less than the worker
that it is compared with.

Celery and Dramatiq are not among them. They need a Redis or RabbitMQ server and a bridge that moves
events there from Kafka, so either an event is acknowledged before its work is done, or the bridge
waits for every task. A task holds a thread while its job runs, as in `threads`: the ceiling is
the same, threads divided by the time of a job.
"""
