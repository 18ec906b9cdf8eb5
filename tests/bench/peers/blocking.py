"""One event after the other in a plain consumer loop."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from tests.bench.peers.work import Clients, extract, result_headers, settings_from_arguments


def main() -> None:
    settings = settings_from_arguments()
    clients = Clients(settings)
    producer = Producer({"bootstrap.servers": settings.bootstrap})
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([settings.topic])
    while True:
        record = consumer.poll(1.0)
        if record is None or record.error():
            continue
        bundle_id, result = extract(clients, record.value() or b"")
        producer.produce(settings.results, result, headers=result_headers(bundle_id))
        producer.flush()
        consumer.commit(message=record)


if __name__ == "__main__":
    main()
