// Package gateway speaks OpenClaw's WebSocket RPC, as far as a dispatcher needs
// it: run an agent, hear or ask whether a run has ended, list the agents.
//
// Facts about the gateway were observed on versions 2026.3.13 and 2026.9.6, on
// loopback with token authentication, unless a comment says otherwise.
//
// # Layers
//
//	channel (channel.go)     frames over a WebSocket
//	conn    (conn.go ...)    calls and ends of runs, over a channel that has shaken hands
//	Client  (client.go ...)  when to dial, when to repeat, which error is which
//
// Frames are JSON objects, in this order:
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
// A connection has one reader from dial to end, which also answers the pings by
// which 2026.9.6 finds dead clients. Responses may come in any order.
//
// Every connection is signed with an Ed25519 key of the Client's own life:
// 2026.3.13 takes the scopes of an unsigned client away. On loopback the gateway
// wants no pairing for it. Clients from elsewhere must be paired, which OTM does
// not do: a tunnel to the gateway's machine makes them local.
//
// # What an acceptance means
//
// The gateway has put the run into a queue in its memory, no more. It forgets
// the queue when it dies. A status "ok" at the end does not mean that the task
// was done: a command that takes longer than 10 s goes on in the background
// (2026.9.6), and a failed model call ends "ok" (2026.3.13). Only what the agent
// writes proves work.
//
// The idempotency key is the run id, for the whole gateway: the same key sent
// for another agent returns the first one's result. The gateway remembers a key
// for 5 minutes after the run's end, and until it restarts. After that 2026.3.13
// runs the agent a second time, and 2026.9.6 accepts and then fails without
// calling the model. So a key serves to repeat one request for a few minutes;
// every deliberate new attempt needs a new key, which names agent and attempt.
//
// An agent has one turn at a time in a session. All runs asked for here go to
// its main session and queue there, silently: the caller bounds how many are
// outstanding.
package gateway
