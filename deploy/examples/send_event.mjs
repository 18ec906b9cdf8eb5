// Announces a bundle from Node.js:  npm install kafkajs
//   node send_event.mjs BROKERS BUNDLE_ID SOURCE_KEY [SOURCE_KEY ...]
import { randomUUID } from "node:crypto";
import { Kafka } from "kafkajs";

const [brokers, bundleId, ...keys] = process.argv.slice(2);
const event = {
  bundle_id: bundleId,
  operation: "received",
  documents: keys.map((key, index) => ({
    document_id: `document-${index + 1}`,
    segments: [{ source: { key } }],
  })),
};
const producer = new Kafka({ clientId: "upstream", brokers: brokers.split(",") }).producer({
  idempotent: true,
});
await producer.connect();
await producer.send({
  topic: "bundles.events.v1",
  acks: -1,
  messages: [
    {
      key: bundleId,
      value: JSON.stringify(event),
      headers: {
        ce_specversion: "1.0",
        ce_type: "bundles.bundle.v1",
        ce_source: "/my-system",
        ce_id: randomUUID(),
        "content-type": "application/json",
      },
    },
  ],
});
await producer.disconnect();
console.log(`announced ${bundleId}`);
