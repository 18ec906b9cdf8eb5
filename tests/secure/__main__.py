"""`make secure-check`: a worker on Apache Kafka with TLS, SASL and ACLs and on S3 over TLS."""

from __future__ import annotations

import sys

from deploy.local.kafka import KafkaCluster
from deploy.local.s3 import S3Server
from tests import checks

if __name__ == "__main__":
    servers = {"kafka": KafkaCluster().description, "s3": S3Server().description}
    sys.exit(checks.run("secure", "tests/secure", servers))
