"""What is done to the bytes of PDFs and images. Runs inside a sandbox process.

Nothing here knows of Kafka, HTTP, settings or metrics, and nothing but engines is imported: a
sandbox process has to start quickly and to stay small.
"""
