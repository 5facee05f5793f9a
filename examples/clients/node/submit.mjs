// Hands a kernel in, follows it to its end, and prints the verdict.  Usage: node submit.mjs PROBLEM FILE
// GRADER_SERVER: http://HOST:PORT of a server on this host (http://127.0.0.1:50551), or https://HOST:PORT. GRADER_KEY: the API key.
// GRADER_CA: a file of authorities to trust in addition to the system's.
// Exit code: 0 ACCEPTED, 1 another verdict, 2 the call was refused, 3 the grader failed.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { GraderService } from "./gen/grader/v1/grader_service_pb.js";
import { Verdict } from "./gen/grader/v1/report_pb.js";
import { Stage, SubmissionState } from "./gen/grader/v1/submission_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

const DEADLINE_MS = 10_000;
const TRIES = 5;

function connected() {
  const baseUrl = process.env.GRADER_SERVER ?? "http://127.0.0.1:50551";
  const ca = process.env.GRADER_CA;
  const withKey = (next) => (request) => {
    if (process.env.GRADER_KEY) request.header.set("authorization", `Bearer ${process.env.GRADER_KEY}`);
    return next(request);
  };
  const nodeOptions = ca ? { ca: readFileSync(ca) } : {};
  return createClient(GraderService, createGrpcTransport({ baseUrl, nodeOptions, interceptors: [withKey] }));
}

/** Retries what may be retried: UNAVAILABLE, after as long as the server asks for. */
async function patiently(call) {
  for (let left = TRIES; ; left--) {
    try {
      return await call();
    } catch (error) {
      const wrong = ConnectError.from(error);
      if (wrong.code !== Code.Unavailable || left <= 1) throw wrong;
      const [retry] = wrong.findDetails(RetryInfoSchema);
      await pause(retry?.retryDelay ? Number(retry.retryDelay.seconds) * 1000 + retry.retryDelay.nanos / 1e6 : 500);
    }
  }
}

/** Follows a submission to its end; a stream that breaks is taken up again after the last event seen. */
async function* watched(client, name) {
  let afterSequence = 0n;
  for (let broken = 0; ; ) {
    try {
      for await (const event of client.watchSubmission({ name, afterSequence })) {
        [afterSequence, broken] = [event.sequence, 0];
        yield event;
      }
      return;
    } catch (error) {
      const wrong = ConnectError.from(error);
      if (wrong.code !== Code.Unavailable || ++broken >= TRIES) throw wrong;
      await pause(500);
    }
  }
}

async function main([problem, file]) {
  if (!problem || !file) {
    console.error("usage: node submit.mjs PROBLEM FILE");
    return 2;
  }
  const client = connected();
  const submission = { problem: `problems/${problem}`, sources: [{ path: basename(file), content: readFileSync(file, "utf8") }] };
  const request = { submission, requestId: randomUUID() }; // the same id at each try: it is taken once
  let last = await patiently(() => client.submit(request, { timeoutMs: DEADLINE_MS }));
  console.log(last.name);
  for await (const { event } of watched(client, last.name)) {
    if (event.case === "progress") console.log(`  ${Stage[event.value.stage].toLowerCase()} ${event.value.workloadId}`);
    if (event.case === "submission") last = event.value;
  }
  if (last.state !== SubmissionState.SUCCEEDED) {
    console.error(`${SubmissionState[last.state]}: ${last.error?.message ?? ""}`);
    return 3;
  }
  console.log(`${Verdict[last.report.verdict]} ${last.report.reason}`.trim());
  console.log(JSON.stringify(last.report.summary)); // untrusted text: JSON escapes what a terminal would obey
  for (const one of last.report.speedups) console.log(`  ${one.ratio.toFixed(2)}x over ${one.baseline}`);
  return last.report.verdict === Verdict.ACCEPTED ? 0 : 1;
}

function explain(error) {
  const wrong = ConnectError.from(error);
  const [info] = wrong.findDetails(ErrorInfoSchema);
  console.error(`${Code[wrong.code]}${info ? ` (${info.reason})` : ""}: ${wrong.rawMessage}`);
  for (const bad of wrong.findDetails(BadRequestSchema)) {
    for (const one of bad.fieldViolations) console.error(`  ${one.field}: ${one.description}`);
  }
  return [Code.Unavailable, Code.DeadlineExceeded, Code.Internal].includes(wrong.code) ? 3 : 2;
}

process.exitCode = await main(process.argv.slice(2)).catch(explain);
