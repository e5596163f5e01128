// Every check of a client library with every provider: the client has a base URL and a key, the model's name has the provider.
//
// Environment: BASE_URL (with /v1), KEY (a service key), MODELS (`@provider/model`, separated by spaces).

import assert from "node:assert/strict";
import { BASE_URL, KEY } from "./each.mjs";

export { BASE_URL, KEY };
// For clients that append the version themselves.
export const ROOT = BASE_URL.replace(/\/v1$/, "");
export const WRONG_KEY = "sk-not-a-service-key-0123456789";
export const HELLO = "Say hello.";
export const CALL_THE_TOOL = "Please call the tool.";
export const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

// Fails unless the call fails with this status.
export async function refused(status, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.status ?? error.statusCode, status, String(error));
    return true;
  });
}

// Runs the checks (functions of a client and a model) with every model; exits with 1 when one failed.
export async function grid(name, checks, client) {
  let failures = 0;
  for (const model of process.env.MODELS.split(" ")) {
    const failed = [];
    for (const check of checks) {
      try {
        await check(client, model);
      } catch (error) {
        failed.push(`FAIL  ${check.name}\n${error.stack}`);
      }
    }
    failures += failed.length;
    console.log([`${checks.length - failed.length} of ${checks.length}  ${name} ${model}`, ...failed].join("\n"));
  }
  process.exitCode ||= failures ? 1 : 0;
}
