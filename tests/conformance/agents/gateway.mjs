// A server between an agent and doorbell, which records requests, and a proxy that refuses every other connection.
import { createServer, request } from "node:http";
import { once } from "node:events";

async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

// Forwards requests to `port` and appends { method, path, body, status, answer } to `records`.
export async function gateway(port, records) {
  const server = createServer(async (incoming, outgoing) => {
    const parts = [];
    for await (const part of incoming) parts.push(part);
    const body = Buffer.concat(parts);
    const record = { method: incoming.method, path: incoming.url, body: body.toString(), status: 0, answer: "" };
    records.push(record);
    const { connection, "transfer-encoding": _, ...headers } = incoming.headers;
    const options = { port, host: "127.0.0.1", method: incoming.method, path: incoming.url };
    const forward = request({ ...options, headers: { ...headers, "content-length": body.length } }, (answer) => {
      record.status = answer.statusCode;
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.on("data", (data) => { record.answer += data; outgoing.write(data); });
      answer.on("end", () => outgoing.end());
      answer.on("error", () => outgoing.destroy());
    });
    forward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => forward.destroy());
    forward.end(body);
  });
  return { port: await listen(server), close: () => { server.close(); server.closeAllConnections(); } };
}

// Refuses all connections and appends their targets to `targets`.
export async function refusing(targets) {
  const server = createServer((incoming, outgoing) => {
    targets.push(incoming.url);
    outgoing.writeHead(403).end();
  });
  server.on("connect", (incoming, socket) => {
    targets.push(incoming.url);
    socket.on("error", () => {});
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  return { port: await listen(server), close: () => { server.close(); server.closeAllConnections(); } };
}
