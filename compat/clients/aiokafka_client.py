"""aiokafka: an idempotent producer, batches, and two members of a group. Prints a transcript. Arguments: BOOTSTRAP TAG."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

bootstrap, tag = sys.argv[1:3]


async def main():
    topic, group = f"aio-{tag}", f"aio-group-{tag}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name=topic, num_partitions=4, replication_factor=1)])
    while topic not in await admin.list_topics():
        await asyncio.sleep(0.05)
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="gzip", linger_ms=5
    ) as producer:
        sent = await asyncio.gather(*[await producer.send(topic, b"%d" % n, partition=n % 4) for n in range(1000)])
        print("acknowledged", len(sent), "last offset", max(m.offset for m in sent))
    members = [
        AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
        )
        for _ in range(2)
    ]
    for member in members:
        await member.start()
    seen = set()

    async def drain(member):
        while len(seen) < 1000:
            for records in (await member.getmany(timeout_ms=200)).values():
                seen.update(record.value for record in records)

    await asyncio.wait_for(asyncio.gather(*map(drain, members)), 30)
    print("delivered", len(seen), "assigned", sorted(len(m.assignment()) for m in members))
    for member in members:
        await member.commit()
    print("committed", [await members[0].committed(TopicPartition(topic, p)) for p in range(4)])
    for member in members:
        await member.stop()
    await admin.delete_topics([topic])
    await admin.close()


asyncio.run(main())
