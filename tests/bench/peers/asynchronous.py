"""aiokafka and aiohttp on uvloop, a task per event; minio, which blocks, in threads."""

from __future__ import annotations

import asyncio
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import uvloop
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)

from tests.bench.peers.work import (
    CEILING_S,
    FIRST_DELAY_S,
    Clients,
    PeerSettings,
    idempotency_key,
    manifest_of,
    result_headers,
    settings_from_arguments,
)

COMMIT_S = 1.0
STORE_THREADS = 16


async def extract(
    settings: PeerSettings, clients: Clients, http: aiohttp.ClientSession, value: bytes
) -> tuple[str, bytes]:
    loop = asyncio.get_running_loop()
    event: dict[str, Any] = json.loads(value)
    bundle_id = event["bundle_id"]
    key = event["documents"][0]["segments"][0]["source"]["key"]
    document = await loop.run_in_executor(None, _get, clients, key)
    form = aiohttp.FormData()
    form.add_field("file", document, filename="document.pdf", content_type="application/pdf")
    async with http.post(
        f"{settings.provider}/pdf/extract_images",
        data=form,
        headers={"Idempotency-Key": idempotency_key(settings, bundle_id)},
    ) as answer:
        answer.raise_for_status()
        job_id = (await answer.json())["job_id"]
    delay = FIRST_DELAY_S
    while True:
        await asyncio.sleep(delay)
        async with http.get(f"{settings.provider}/pdf/job/get/{job_id}") as answer:
            job = await answer.json()
        if job["status"] == "completed":
            break
        delay = min(delay * 2, CEILING_S)
    async with http.get(job["images"][0]["url"]) as answer:
        image = await answer.read()
    prefix = f"peers/{settings.name}/{bundle_id}"
    await loop.run_in_executor(None, _put, clients, f"{prefix}/image.png", image)
    manifest = manifest_of(settings, job_id, f"{prefix}/image.png", image)
    await loop.run_in_executor(None, _put, clients, f"{prefix}/manifest.json", manifest)
    return bundle_id, manifest


def _get(clients: Clients, key: str) -> bytes:
    answer = clients.store.get_object(clients.settings.input_bucket, key)
    try:
        return answer.read()
    finally:
        answer.close()
        answer.release_conn()


def _put(clients: Clients, key: str, body: bytes) -> None:
    clients.store.put_object(clients.settings.output_bucket, key, io.BytesIO(body), len(body))


async def run(settings: PeerSettings) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(STORE_THREADS))
    clients = Clients(settings)
    consumer = AIOKafkaConsumer(
        settings.topic,
        bootstrap_servers=settings.bootstrap,
        group_id=settings.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap, linger_ms=5)
    await consumer.start()
    await producer.start()
    places = asyncio.Semaphore(settings.concurrency)
    pending: dict[TopicPartition, dict[int, asyncio.Task[None]]] = {}
    connector = aiohttp.TCPConnector(limit=100)
    async with aiohttp.ClientSession(connector=connector) as http:

        async def work(value: bytes) -> None:
            try:
                bundle_id, result = await extract(settings, clients, http, value)
                await producer.send_and_wait(
                    settings.results, result, headers=result_headers(bundle_id)
                )
            finally:
                places.release()

        committed = time.monotonic()
        while True:
            await places.acquire()
            record = await consumer.getone()
            partition = TopicPartition(record.topic, record.partition)
            task = asyncio.create_task(work(record.value))
            pending.setdefault(partition, {})[record.offset] = task
            if time.monotonic() - committed >= COMMIT_S:
                committed = time.monotonic()
                done = {
                    partition: offset
                    for partition, tasks in pending.items()
                    if (offset := _contiguous(tasks)) is not None
                }
                if done:
                    await consumer.commit(done)


def _contiguous(tasks: dict[int, asyncio.Task[None]]) -> int | None:
    """The offset to commit; what is done before it is forgotten."""
    offset = None
    for at in sorted(tasks):
        if not tasks[at].done():
            break
        tasks.pop(at).result()
        offset = at + 1
    return offset


if __name__ == "__main__":
    uvloop.run(run(settings_from_arguments()))
