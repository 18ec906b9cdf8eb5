// Extracts the images of a PDF with the self-hosted service. Node.js 18 or later, no packages.
//   EXTRACTOR_URL=http://127.0.0.1:8088 EXTRACTOR_TOKEN=... node client.mjs FILE.pdf [OUT_DIR]
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const [file, outDir = "images"] = process.argv.slice(2);
const base = `${process.env.EXTRACTOR_URL ?? "http://127.0.0.1:8088"}/v1`;
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const pdf = await readFile(file);
const headers = { authorization: `Bearer ${process.env.EXTRACTOR_TOKEN}` };

async function call(url, options) {
  const answer = await fetch(url, { redirect: "error", ...options });
  if (answer.ok) return answer;
  if (![429, 503].includes(answer.status)) throw new Error(`${answer.status} ${await answer.text()}`);
  await sleep(1000 * Number(answer.headers.get("retry-after") ?? 1)); // busy: not a failure
  return call(url, options);
}

const form = new FormData();
form.set("file", new Blob([pdf], { type: "application/pdf" }), "document.pdf");
// The same document gets the same key, so running this again after a crash makes no second job.
const key = { ...headers, "idempotency-key": sha256(pdf) };
const { job_id } = await (await call(`${base}/pdf/extract_images`, { method: "POST", headers: key, body: form })).json();
let job;
do job = await (await call(`${base}/pdf/job/get/${job_id}?wait=20`, { headers })).json(); while (!job.finished_at);
if (job.status === "failed") throw new Error(`job ${job_id}: ${JSON.stringify(job.error)}`);

await mkdir(outDir, { recursive: true });
for (const { page, index, url, sha256: expected, media_type } of job.images) {
  const bytes = Buffer.from(await (await call(url)).arrayBuffer()); // no token: the URL is enough
  if (sha256(bytes) !== expected) throw new Error(`page ${page} image ${index} arrived damaged`);
  const name = `page-${String(page).padStart(3, "0")}-image-${String(index).padStart(3, "0")}`;
  await writeFile(`${outDir}/${name}.${media_type.split("/")[1]}`, bytes);
}
console.log(`${job.images.length} images of ${job.pages} pages in ${outDir}`);
