"""Announces a bundle: what a system upstream does. Needs only confluent-kafka.

python deploy/examples/send_event.py BROKERS BUNDLE_ID SOURCE_KEY [SOURCE_KEY ...]
"""

import json
import sys
import uuid

from confluent_kafka import Producer

brokers, bundle_id, *keys = sys.argv[1:]
event = {
    "bundle_id": bundle_id,
    "operation": "received",
    "documents": [
        {"document_id": f"document-{number}", "segments": [{"source": {"key": key}}]}
        for number, key in enumerate(keys, start=1)
    ],
}
failures: list[str] = []
producer = Producer({"bootstrap.servers": brokers, "acks": "all", "enable.idempotence": True})
producer.produce(
    "bundles.events.v1",
    key=bundle_id,
    value=json.dumps(event),
    headers={
        "ce_specversion": "1.0",
        "ce_type": "bundles.bundle.v1",
        "ce_source": "/my-system",
        "ce_id": str(uuid.uuid4()),
        "content-type": "application/json",
    },
    on_delivery=lambda error, _: failures.append(str(error)) if error else None,
)
producer.flush(30)
if failures:
    sys.exit(f"not announced: {failures[0]}")
print(f"announced {bundle_id}")
