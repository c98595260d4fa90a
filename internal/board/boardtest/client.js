// Reads calls as lines of JSON, makes them with Slack's own client, and writes
// what that answers as lines of JSON.
const { createRequire } = require("node:module");
const { WebClient, LogLevel } = createRequire(process.cwd() + "/")("@slack/web-api");
const clients = new Map();

function client(base, token) {
  const key = `${base} ${token}`;
  if (!clients.has(key)) {
    clients.set(key, new WebClient(token, {
      slackApiUrl: base, retryConfig: { retries: 0 }, rejectRateLimitedCalls: true, logLevel: LogLevel.ERROR,
      logger: { debug() {}, info() {}, warn() {}, error() {}, setLevel() {}, getLevel: () => LogLevel.ERROR, setName() {} },
    }));
  }
  return clients.get(key);
}

async function call({ base, token, method, args }) {
  try {
    const { response_metadata: metadata, ...answer } = await client(base, token).apiCall(method, args ?? {});
    // The client adds scopes and warnings of its own to the metadata.
    const { scopes, acceptedScopes, warnings, ...rest } = metadata ?? {};
    if (Object.keys(rest).length) answer.response_metadata = rest;
    return { answer };
  } catch (e) {
    if (e.data) {
      const { response_metadata: metadata, ...answer } = e.data;
      const { scopes, acceptedScopes, ...rest } = metadata ?? {};
      if (Object.keys(rest).length) answer.response_metadata = rest;
      return { answer };
    }
    if (e.code === "slack_webapi_rate_limited_error") return { answer: { ok: false, error: "ratelimited" } };
    return { error: `${e.code}: ${e.message}` };
  }
}

let chain = Promise.resolve();
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  chain = chain.then(async () => process.stdout.write(JSON.stringify(await call(JSON.parse(line))) + "\n"));
});
