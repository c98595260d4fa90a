// A program of somebody else, on the client that was generated from docs/openapi.json: it
// makes a task, sees it handed out, does it as its agent, and accepts it.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const baseUrl = process.env.OTM_URL ?? "";
const bearer = (token: string | undefined) => ({ Authorization: `Bearer ${token}` });
const operator = createClient<paths>({ baseUrl, headers: bearer(process.env.OTM_OPERATOR) });
const agent = createClient<paths>({ baseUrl, headers: bearer(process.env.OTM_AGENT) });

function want(right: unknown, what: string, seen?: unknown): asserts right {
  if (!right) throw new Error(`${what}: ${JSON.stringify(seen)}`);
}

// moves yields where a task moves, from the stream of events.
async function* moves(after: number, task: string): AsyncGenerator<string> {
  const answer = await fetch(`${baseUrl}/api/otm/events/stream?type=TaskMoved&task=${task}&after=${after}`, { headers: bearer(process.env.OTM_OPERATOR) });
  want(answer.ok && answer.body, "the stream of events", answer.status);
  let text = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    text += chunk;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end));
      text = text.slice(end + 2);
      if (data) {
        const event: components["schemas"]["Envelope"] = JSON.parse(data[1]);
        yield (event.payload as { to: string }).to;
      }
    }
  }
}

const headers = { "Idempotency-Key": "build-it" };
const body = { title: "Build it", agent: "devdas", subtasks: ["Plan", "Build"] };
const made = await operator.POST("/api/otm/tasks", { params: { header: headers }, body });
want(made.data?.taskId, "the task was made", made.error);
const again = await operator.POST("/api/otm/tasks", { params: { header: headers }, body });
want(again.data?.taskId === made.data.taskId, "the same request made no other task", again);

const id = made.data.taskId;
for await (const to of moves(made.data.sequence ?? 0, id)) {
  if (to === "assigned") {
    const next = await agent.POST("/api/otm/agents/{agent}/next", { params: { path: { agent: "devdas" } } });
    want(next.data?.task?.taskId === id, "the agent gets the task", next);
    const wrong = await agent.POST("/api/otm/tasks/{id}/accept", { params: { path: { id } } });
    want(wrong.error?.detail?.includes("role bot"), "a bot accepts nothing", wrong);
    const report = { run: next.data.task.run, status: "agent_done", subtasksDone: next.data.task.subtasks, result: "built" };
    const done = await agent.POST("/api/otm/tasks/{id}/report", { params: { path: { id } }, body: report });
    want(done.data?.status === "agent_done", "the agent reports", done);
  }
  if (to === "agent_done") {
    const accepted = await operator.POST("/api/otm/tasks/{id}/accept", { params: { path: { id } } });
    want(accepted.data?.status === "done", "the result is accepted", accepted);
  }
  if (to === "done") break;
}
const refused = await operator.POST("/api/otm/tasks/{id}/reject", { params: { path: { id } }, body: { reason: "late" } });
want(refused.error?.possible?.includes("reopen"), "a refusal says what is possible", refused);
const shown = await operator.GET("/api/otm/tasks/{id}", { params: { path: { id } } });
want(shown.data?.task?.result === "built" && shown.data.history.length > 3, "the task is shown", shown);
console.log(`${id}: ${shown.data.task.status}`);
process.exit(0);
