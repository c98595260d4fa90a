// Package gateway speaks OpenClaw's WebSocket RPC, as far as somebody who
// hands out tasks needs it: run an agent, ask whether a run has ended, list
// the agents.
//
// Facts about the gateway were seen on versions 2026.3.13 and 2026.9.6, on
// loopback with token authentication, unless a comment says otherwise.
//
// # Order of frames
//
// One JSON object a text frame:
//
//	gateway  event "connect.challenge" {nonce, ts}
//	client   request "connect", with a device signature over nonce and ts
//	gateway  response "hello-ok"
//	         ... from here on events at any time, known and unknown ...
//	client   request "agent" {message, agentId, idempotencyKey}
//	gateway  response "accepted" under the request's id
//	gateway  second response under the same id when the run has ended,
//	         minutes or days later, or never
//
// A Client keeps one connection, dialled at first need and again when it was
// lost. Calls share it; responses may come in any order and are told apart by
// id. A connection has a reader from dial to end (it also answers the pings by
// which 2026.9.6 finds dead clients), a writer and a pinger (both versions answer
// pings); dialling and each call of Config.OnEnd have a goroutine of their own.
// Close waits for all of them.
//
// Every connection is signed by an Ed25519 key: 2026.3.13 strips an unsigned
// client of its scopes, and gateway-client/backend with a signature needs no
// pairing on loopback on either version. From elsewhere the gateway asks for
// pairing; a person approves the key ("openclaw devices approve"), so the key
// has to be the same the next time.
//
// # What is promised
//
// Accepted means that the gateway has put the run into a queue in its memory.
// It does not mean that the agent has begun, nor that it will: a gateway that
// dies forgets its queue. A status "ok" at the end does not mean that the task
// was done (a command that takes longer than 10 s goes on in the background,
// 2026.9.6; a failed model call ends "ok", 2026.3.13). Only what the agent
// writes proves work.
//
// The idempotency key is the run id, for the whole gateway and not for an
// agent: the same key sent for another agent returns the first one's result.
// So the key must name the agent and the attempt. The gateway remembers a key
// for 5 minutes after the run's end, and until it restarts. Within that time
// asking again is free of effects; after it 2026.3.13 runs the agent a second
// time, and 2026.9.6 accepts and then fails without calling the model. So the
// same key serves to repeat a request whose answer was lost, for a few minutes;
// every deliberate new attempt needs a new key. A run that failed inside the
// five minutes is remembered as well.
//
// [Client.Run] therefore repeats itself under one key until the context ends,
// and never after an acceptance. Its error says whether the run may be queued
// all the same: it is so exactly when errors.Is(err, [ErrLost]).
//
// An agent has one turn at a time in a session, and all runs asked for here go
// to the agent's main session: they queue behind each other, silently. The
// caller bounds how many are outstanding.
//
// # What is not promised
//
// That the end of a run is heard of: the second response goes to the
// connection that asked, and goes missing with it. [Client.Wait] asks by run
// id, from any connection; but a run that is unknown, one that is still
// running and one that died with the gateway all give the same answer, so
// silence says nothing. 2026.9.6 resumes a run that a crash cut off by itself
// and under a new run id; the old id stays unknown for ever.
//
// There is no short wait after an acceptance for the failure that sometimes
// follows at once ("accepted" and then ok:false a few milliseconds later).
// Seen causes are a missing agent id (2026.3.13) and a blank message (2026.9.6),
// and both are refused here before sending; what remains is a run that began
// and failed early, and to report that as "nothing is queued" would be wrong.
// Such an end goes to Config.OnEnd like any other.
package gateway
