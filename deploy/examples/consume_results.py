"""Consumes results safely: at least once means twice now and then, so drop what was seen.

    python deploy/examples/consume_results.py BROKERS GROUP [HOW_MANY]

The set of seen ids is in memory here; yours belongs in the same transaction as what you do with a
result.
"""

import json
import sys
from typing import Any

from confluent_kafka import Consumer

brokers, group, *rest = sys.argv[1:]
wanted = int(rest[0]) if rest else None
consumer = Consumer(
    {
        "bootstrap.servers": brokers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
)
consumer.subscribe(["bundles.results.v1"])
seen: set[bytes] = set()
try:
    while wanted is None or len(seen) < wanted:
        record = consumer.poll(1.0)
        if record is None or record.error():
            continue
        headers: dict[str, Any] = dict(record.headers() or [])
        if headers["ce_id"] not in seen:  # equal ids carry equal bytes
            seen.add(headers["ce_id"])
            result = json.loads(record.value() or b"{}")
            kind = headers["ce_type"].decode()
            if kind == "bundles.document-result.v1":
                print(result["bundle_id"], result["document_id"], result["manifest"]["key"])
            else:
                print(result["bundle_id"], "ended:", result["extracted"], result["dead_lettered"])
        consumer.commit(message=record)
finally:
    consumer.close()
