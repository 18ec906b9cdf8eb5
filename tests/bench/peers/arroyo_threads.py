"""sentry-arroyo's `RunTaskInThreads`."""

from __future__ import annotations

from collections.abc import Mapping

from arroyo.backends.kafka.configuration import build_kafka_consumer_configuration
from arroyo.backends.kafka.consumer import KafkaConsumer, KafkaPayload
from arroyo.processing.processor import StreamProcessor
from arroyo.processing.strategies import CommitOffsets, RunTaskInThreads
from arroyo.processing.strategies.abstract import ProcessingStrategy, ProcessingStrategyFactory
from arroyo.types import Commit, Message, Partition, Topic
from confluent_kafka import Producer

from tests.bench.peers.work import (
    Clients,
    PeerSettings,
    extract,
    result_headers,
    settings_from_arguments,
)


class Factory(ProcessingStrategyFactory[KafkaPayload]):
    def __init__(self, settings: PeerSettings) -> None:
        self._settings = settings
        self._clients = Clients(settings)
        self._producer = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 5})

    def create_with_partitions(
        self, commit: Commit, partitions: Mapping[Partition, int]
    ) -> ProcessingStrategy[KafkaPayload]:
        return RunTaskInThreads(
            self._work,
            concurrency=self._settings.concurrency,
            max_pending_futures=2 * self._settings.concurrency,
            next_step=CommitOffsets(commit),
        )

    def _work(self, message: Message[KafkaPayload]) -> None:
        bundle_id, result = extract(self._clients, message.payload.value)
        self._producer.produce(self._settings.results, result, headers=result_headers(bundle_id))
        self._producer.poll(0)


def main() -> None:
    settings = settings_from_arguments()
    consumer = KafkaConsumer(
        build_kafka_consumer_configuration(
            {},
            bootstrap_servers=[settings.bootstrap],
            auto_offset_reset="earliest",
            group_id=settings.name,
        )
    )
    StreamProcessor(consumer, Topic(settings.topic), Factory(settings)).run()


if __name__ == "__main__":
    main()
