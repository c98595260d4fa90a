package heartbeat

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"otm/internal/explain"
	"otm/pipeline"
)

// Report is what one run of a component did and found.
type Report struct {
	Did         []Did
	Waiting     int               // files that stay in the inboxes
	Failed      []explain.Finding // what failed in this run
	NeedsPerson []explain.Finding // what works again only when a person acts
	Due         time.Time         // when to run again at the latest; zero: at the usual time
	Trouble     error             // what ended the run early; nil: nothing did
	Next        string            // what a person can do about the trouble; "": not known
	NoBoard     bool              // the trouble is that the board is not there
}

// Did counts one kind of work, such as {"Processed", "task", 2}.
type Did struct {
	Verb, Noun string
	N          int
}

// RunBy sets Due to a time, unless it is earlier already. Zero changes nothing.
func (r *Report) RunBy(at time.Time) {
	if !at.IsZero() && (r.Due.IsZero() || at.Before(r.Due)) {
		r.Due = at
	}
}

// Fail notes a failure once.
func (r *Report) Fail(f explain.Finding) {
	if !slices.ContainsFunc(r.Failed, f.Equal) {
		r.Failed = append(r.Failed, f)
	}
}

// Needs notes once that something needs a person.
func (r *Report) Needs(f explain.Finding) {
	if !slices.ContainsFunc(r.NeedsPerson, f.Equal) {
		r.NeedsPerson = append(r.NeedsPerson, f)
	}
}

// Result is how the run went. One that waits for the rate limit is not done (C52):
// its findings say until when.
func (r *Report) Result() Result {
	_, waits := pipeline.WaitsUntil(r.Trouble)
	switch {
	case r.Trouble != nil && !waits:
		return Error
	case waits || len(r.Failed)+len(r.NeedsPerson) > 0:
		return Partial
	}
	return Success
}

// maxFindings is how many findings a heartbeat shows, besides the trouble.
const maxFindings = 20

// shown returns the findings that a heartbeat shows, without the trouble, and how
// many more there are.
func (r *Report) shown() (found []explain.Finding, more int) {
	found = slices.Concat(r.Failed, r.NeedsPerson)
	n := min(len(found), maxFindings)
	return found[:n], len(found) - n
}

// Findings is the report as data.
func (r *Report) Findings() []explain.Finding {
	found, _ := r.shown()
	var e *pipeline.BoardError
	until, waits := pipeline.WaitsUntil(r.Trouble)
	switch errors.As(r.Trouble, &e); {
	case r.Trouble == nil:
		return found
	case waits:
		return append(found, explain.New(explain.RateLimited, "method", e.Method, "until", until))
	case e != nil && e.Credentials:
		return append(found, explain.New(explain.TokenRefused, "error", e))
	case e != nil && e.ReadOnly():
		return append(found, explain.New(explain.ListReadOnly))
	}
	trouble := explain.New(explain.RunTrouble, "error", r.Trouble)
	if r.Next != "" {
		trouble = explain.New(explain.RunStuck, "error", r.Trouble, "next", r.Next)
	}
	if r.NoBoard || e != nil {
		trouble.Args["cause"] = explain.CauseBoard
	}
	return append(found, trouble)
}

// Details is the report as a sentence. Callers escape it.
func (r *Report) Details() string {
	var parts []string
	for i, d := range r.Did {
		verb := d.Verb
		if i > 0 {
			verb = strings.ToLower(verb)
		}
		parts = append(parts, verb+" "+explain.Count(d.N, d.Noun, d.Noun+"s"))
	}
	if len(r.Did) > 0 {
		parts = append(parts, explain.Count(len(r.Failed), "failure", "failures"))
	}
	if r.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", r.Waiting))
	}
	var all []string
	if len(parts) > 0 {
		all = append(all, strings.Join(parts, ", "))
	}
	found, more := r.shown()
	for i := range found {
		all = append(all, explain.Line(&found[i], time.Time{})) // a heartbeat is read later
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	if r.Trouble != nil {
		all = append(all, r.Trouble.Error())
	}
	return strings.Join(all, "; ")
}

// Stopped notes what ended the run early. It returns the error if that is none of the
// board: the data directory has gone.
func (r *Report) Stopped(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.Trouble = err
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok {
		r.RunBy(e.Until)
	}
	return nil
}

// Undelivered notes why the effects of a task were not delivered.
func (r *Report) Undelivered(id pipeline.TaskID, why error) {
	var e *pipeline.BoardError
	switch board := errors.As(why, &e); {
	case board && e.Full:
		r.Needs(explain.New(explain.ListFull))
	case board && e.Class != pipeline.Refused:
		r.Stopped(why)
	default:
		r.Failed = append(r.Failed, explain.New(explain.EffectUndelivered, "error", why).On(id))
	}
}
