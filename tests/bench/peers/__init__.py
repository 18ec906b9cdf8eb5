"""What a user would write instead, each as a process: `python -m tests.bench.peers.NAME SETTINGS`.

All do the same work for an event of one document: fetch the source, submit it, poll by doubling,
fetch the image, write image and manifest, produce the result, commit. None keeps a job record or a
ledger, validates, retries, or finds anything again after a crash.
"""
