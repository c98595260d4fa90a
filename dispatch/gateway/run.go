package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Status is how the gateway says where a run stands.
type Status string

// Statuses of a run. A gateway may send others.
const (
	StatusAccepted Status = "accepted"
	StatusInFlight Status = "in_flight" // accepted before (2026.9.6)
	StatusOK       Status = "ok"        // ended; does not mean that the work was done
	StatusError    Status = "error"
	StatusTimeout  Status = "timeout" // timed out or aborted
)

// Final reports whether the run has ended.
func (s Status) Final() bool {
	return s == StatusOK || s == StatusError || s == StatusTimeout
}

// End is how a run ended.
type End struct {
	RunID   string
	Status  Status
	Message string // what the gateway says of a failure; may be empty
}

// Accepted says that the gateway has taken a run.
type Accepted struct {
	RunID string // the key, as far as seen

	// Status is accepted or in_flight. A final one means that the gateway
	// had taken the run before, under the same key, and that it has ended.
	Status Status

	// AgentID is the agent that the gateway says it goes to; empty where it
	// does not tell. Another one than was asked for means that the key was
	// used twice.
	AgentID string

	// Sends counts the requests it took; more than one where answers were
	// lost.
	Sends int
}

// Run asks the gateway to give message to an agent, and returns when it has
// accepted. It keeps asking, always under the same key, while the gateway
// cannot be reached, is starting or going down, or does not answer, until ctx
// ends; so ctx should. It does not ask again after an acceptance.
//
// The error is, or wraps:
//
//   - a *RefusedError: the gateway said no;
//   - an *AuthError or *URLError (ErrOperator): nobody was asked, or in vain,
//     and it stays so until an operator acts;
//   - ErrNotSent: ctx ended before anything could be sent, or the gateway said
//     to come back later each time;
//   - ErrLost: ctx ended, or one of the others came about, while a request is
//     unaccounted for. Only then may the run be queued.
func (c *Client) Run(ctx context.Context, agentID, message, key string) (Accepted, error) {
	r := &run{
		c:       c,
		params:  runParams{Message: message, AgentID: agentID, IdempotencyKey: key},
		answers: make(chan frame, 16),
		open:    map[string]*conn{},
	}
	defer r.forget()
	err := r.params.check()
	if err == nil {
		err = r.untilAccepted(ctx)
	}
	if err != nil {
		return Accepted{}, fmt.Errorf("run agent %q as %q: %w", agentID, key, r.outcome(ctx, err))
	}
	return r.accepted, nil
}

type runParams struct {
	Message        string `json:"message"`
	AgentID        string `json:"agentId"`
	IdempotencyKey string `json:"idempotencyKey"`
}

// check refuses here what a gateway refuses only after having accepted it: a
// missing agent (2026.3.13) and a blank message (2026.9.6). A message with a
// slash in front is a command to the gateway and may want operator.admin.
func (p runParams) check() error {
	message := strings.TrimSpace(p.Message)
	reason := ""
	switch {
	case strings.TrimSpace(p.AgentID) == "":
		reason = "no agent"
	case strings.TrimSpace(p.IdempotencyKey) == "":
		reason = "no key"
	case message == "":
		reason = "blank message"
	case strings.HasPrefix(message, "/"):
		reason = "the message begins with a slash"
	default:
		return nil
	}
	return &RefusedError{Code: codeInvalid, Message: "not sent: " + reason}
}

// run is one call of Run.
type run struct {
	c       *Client
	params  runParams
	answers chan frame       // to all its requests: a late acceptance counts
	open    map[string]*conn // requests that have no answer, by id
	sends   int
	last    error // why the latest attempt did not do

	accepted Accepted // set by the methods below when they return nil
}

var (
	errNoAnswer = errors.New("no answer in time")
	errTimer    = errors.New("timer") // what await waited for, before any answer
	errStopped  = errors.New("stopped")
)

func (r *run) untilAccepted(ctx context.Context) error {
	for try := 0; ; try++ {
		err := r.attempt(ctx)
		if err == nil {
			return nil
		}
		if err := r.verdict(ctx, err); err != nil {
			return err
		}
		level := slog.LevelInfo
		if try > 0 {
			level = slog.LevelDebug // said once
		}
		r.c.cfg.Log.Log(ctx, level, "asking again under the same key", slog.String("run", r.params.IdempotencyKey),
			slog.Int("attempt", try+1), slog.Any("err", err))
		err = r.pause(ctx, r.c.backoff(try, retryAfter(err)))
		if err != errTimer {
			return err
		}
	}
}

// attempt sends the request once, when there is a connection.
func (r *run) attempt(ctx context.Context) error {
	for {
		d, cn, err := r.c.join() // which spaces the attempts to connect
		if d != nil {
			if err := r.await(ctx, nil, d.done); err != errStopped {
				return err // an earlier request was answered, or it is over
			}
			cn, err = d.conn, d.err
		}
		switch {
		case err == nil && cn.hello.MayWrite():
			return r.ask(ctx, cn)
		case err == nil:
			cn.retire() // the next call dials, and finds what was changed
			return &AuthError{Reason: ReasonScope, Message: "connected without " + scopeWrite}
		case !retryable(err):
			return err
		}
		r.last = err // whatever else goes wrong with a dial passes by itself
	}
}

// ask sends the request over cn and waits for the answer.
func (r *run) ask(ctx context.Context, cn *conn) error {
	id := r.c.nextID() + requestSep + r.params.IdempotencyKey
	data, err := newRequest(id, "agent", r.params)
	if err != nil {
		return err
	}
	if err := cn.register(id, r.answers); err != nil {
		return err
	}
	if err := cn.send(ctx, data); err != nil {
		cn.unregister(id)
		return err
	}
	r.open[id] = cn
	r.sends++
	timer := time.NewTimer(r.c.cfg.AnswerTimeout)
	defer timer.Stop()
	switch err := r.await(ctx, timer.C, cn.lost); err {
	case errTimer:
		return errNoAnswer
	case errStopped:
		return cn.gone()
	default:
		return err
	}
}

// pause waits before the next attempt; it returns errTimer when that is due. An
// acceptance that comes meanwhile ends it, as does a lasting refusal.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	due := r.c.cfg.After(d)
	for {
		err := r.await(ctx, due, nil)
		if err == nil || err == errTimer {
			return err
		}
		if err := r.verdict(ctx, err); err != nil {
			return err
		}
	}
}

// await returns nil if the next answer is an acceptance, errTimer or errStopped
// if there is none until then, else what the answer or ctx says.
func (r *run) await(ctx context.Context, timer <-chan time.Time, stop <-chan struct{}) error {
	var err error
	select {
	case f := <-r.answers:
		return r.judge(f)
	case <-timer:
		err = errTimer
	case <-stop:
		err = errStopped
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.c.ctx.Done():
		err = ErrClosed
	}
	for { // what came in the same moment counts
		select {
		case f := <-r.answers:
			judged := r.judge(f)
			if judged == nil || lasting(judged) {
				return judged
			}
			r.last = judged // and err stands: its channel may not tell it twice
		default:
			return err
		}
	}
}

// judge reads the first response to one of the run's requests.
func (r *run) judge(f frame) error {
	cn := r.open[f.ID]
	delete(r.open, f.ID)
	var p runPayload
	decode(f.Payload, &p)
	// A refusal with a final status is the end of a run that the gateway had
	// taken before: it remembers failures too.
	if f.OK || p.Status.Final() {
		r.accepted = Accepted{
			RunID:   cmp.Or(p.RunID, r.params.IdempotencyKey),
			Status:  p.status(f.OK),
			AgentID: p.AgentID,
			Sends:   r.sends,
		}
		return nil
	}
	err := f.refusal().afterHandshake()
	if errors.Is(err, ErrOperator) && cn != nil {
		cn.retire()
	}
	return err
}

// lasting reports whether another attempt would end the same way.
func lasting(err error) bool {
	var refused *RefusedError
	return !retryable(err) || errors.As(err, &refused) && !refused.temporary()
}

// verdict returns nil if err is worth another attempt, else the error to end
// with.
func (r *run) verdict(ctx context.Context, err error) error {
	if lasting(err) {
		return err
	}
	cause := context.Cause(ctx)
	if cause == nil || !errors.Is(err, cause) {
		r.last = err
	}
	return cause
}

// outcome says what err, the end of the attempts, means for the run.
func (r *run) outcome(ctx context.Context, err error) error {
	ended := errors.Is(err, context.Cause(ctx))
	if ended && r.last != nil {
		err = fmt.Errorf("%w; before that: %w", err, r.last)
	}
	switch {
	case len(r.open) > 0:
		return fmt.Errorf("%w: %w", ErrLost, err)
	case ended:
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	default:
		return err
	}
}

// forget makes answers that still come late ones.
func (r *run) forget() {
	for id, cn := range r.open {
		cn.abandon(id)
	}
}

// runPayload is the payload of a response to the method agent. 2026.3.13 does
// not tell the agent.
type runPayload struct {
	RunID   string `json:"runId"`
	Status  Status `json:"status"`
	AgentID string `json:"agentId"`
}

// status takes the doubt out of a payload: a run ended well only if both the
// response and its payload say so.
func (p runPayload) status(ok bool) Status {
	switch {
	case !ok && (p.Status == StatusOK || !p.Status.Final()):
		return StatusError
	case ok && p.Status == "":
		return StatusAccepted
	}
	return p.Status
}

// ending reads a response that nobody waits for: the end of the run, if it is
// one. A first response that came too late is one only if it says so itself.
func ending(f frame, key string, first bool) (end End, ok bool) {
	var p runPayload
	decode(f.Payload, &p)
	if !p.Status.Final() && (first || p.Status == StatusAccepted || p.Status == StatusInFlight) {
		return End{}, false
	}
	return End{RunID: cmp.Or(p.RunID, key), Status: p.status(f.OK), Message: f.refusal().Message}, true
}
