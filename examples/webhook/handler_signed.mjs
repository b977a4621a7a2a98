// A webhook receiver that accepts signed calls only (Standard Webhooks, v1).
//
// WEBHOOK_SECRET is the secret of the queue's settings: whsec_ and 24 to 64 bytes in base 64.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

const secret = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");

function isSigned(headers, body) {
  const sentAt = headers["webhook-timestamp"] ?? "";
  const off = Math.abs(Date.now() / 1000 - Number(sentAt));
  if (!/^\d+$/.test(sentAt) || off > 300) return false; // too old: perhaps a replay
  const hash = createHmac("sha256", secret).update(`${headers["webhook-id"]}.${sentAt}.`).update(body);
  const wanted = Buffer.from(`v1,${hash.digest("base64")}`);
  const given = (headers["webhook-signature"] ?? "").split(" ").map((text) => Buffer.from(text));
  return given.some((one) => one.length === wanted.length && timingSafeEqual(one, wanted));
}

const server = createServer(async (request, response) => {
  const body = await buffer(request);
  if (!isSigned(request.headers, body)) return response.writeHead(401).end();
  const task = JSON.parse(body).data;
  console.log(`${task.key} is due, attempt ${task.attempt}`);
  response.writeHead(204).end();
});

server.listen(process.env.PORT ?? 8802, "127.0.0.1");
