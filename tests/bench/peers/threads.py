"""A thread pool, one event to a thread; of each partition, what is done without a gap is
committed once a second."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.peers.work import Clients, extract, result_headers, settings_from_arguments

COMMIT_S = 1.0


def main() -> None:
    settings = settings_from_arguments()
    clients = Clients(settings)
    producer = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 5})
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([settings.topic])

    def work(value: bytes) -> None:
        bundle_id, result = extract(clients, value)
        producer.produce(settings.results, result, headers=result_headers(bundle_id))

    pending: dict[int, dict[int, Future[None]]] = {}
    committed = time.monotonic()
    with ThreadPoolExecutor(settings.concurrency) as pool:
        while True:
            running = sum(not f.done() for p in pending.values() for f in p.values())
            if running < settings.concurrency:
                for record in consumer.consume(settings.concurrency - running, 0.02):
                    if record.error():
                        continue
                    partition, offset = record.partition(), record.offset()
                    assert partition is not None
                    assert offset is not None
                    future = pool.submit(work, record.value() or b"")
                    pending.setdefault(partition, {})[offset] = future
            else:
                time.sleep(0.01)
            producer.poll(0)
            if time.monotonic() - committed >= COMMIT_S:
                committed = time.monotonic()
                producer.flush()
                done = [
                    TopicPartition(settings.topic, number, reached)
                    for number, futures in pending.items()
                    if (reached := _contiguous(futures)) is not None
                ]
                if done:
                    consumer.commit(offsets=done)


def _contiguous(futures: dict[int, Future[None]]) -> int | None:
    """The offset to commit; what is done before it is forgotten."""
    offset = None
    for at in sorted(futures):
        if not futures[at].done():
            break
        futures.pop(at).result()
        offset = at + 1
    return offset


if __name__ == "__main__":
    main()
