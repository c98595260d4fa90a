package gatewaytest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/coder/websocket"
)

// Cut is how a connection ends: a close code, CutEOF or CutReset.
type Cut int

// Ways to end a connection without a close frame.
const (
	CutEOF   Cut = 0  // the stream just ends; clients call it 1006
	CutReset Cut = -1 // a TCP reset; what was sent before may be lost with it
)

// A Fault is what befalls one request of method agent.
type Fault struct {
	kind faultKind
	cut  Cut
}

// By returns the same fault with another way of cutting the connection.
func (f Fault) By(how Cut) Fault { f.cut = how; return f }

type faultKind int

const (
	none faultKind = iota
	noAnswer
	neverDelivered
	dropUnqueued
	dropQueued
	dropExecuted
	acceptDropBefore
	acceptDropAfter
	acceptNeverRun
	acceptThenFail
	okWithoutWork
	unavailable
)

// Faults of the method agent.
var (
	None             = Fault{none, 0}             // as it should be
	NoAnswer         = Fault{noAnswer, 0}         // passed over: nothing queued, no answer, connection kept
	NeverDelivered   = Fault{neverDelivered, 0}   // queued and executed, but neither response is sent
	DropUnqueued     = Fault{dropUnqueued, 0}     // cut with nothing queued
	DropQueued       = Fault{dropQueued, 0}       // queued, cut before the answer, executed all the same
	DropExecuted     = Fault{dropExecuted, 0}     // executed to its end, then cut before any answer
	AcceptDropBefore = Fault{acceptDropBefore, 0} // accepted, cut, executed
	AcceptDropAfter  = Fault{acceptDropAfter, 0}  // accepted, executed, cut before the second response
	AcceptNeverRun   = Fault{acceptNeverRun, 0}   // accepted and never executed, nothing more is heard
	AcceptThenFail   = Fault{acceptThenFail, 0}   // accepted, at once ok:false, not executed
	OKWithoutWork    = Fault{okWithoutWork, 0}    // accepted, ends ok, the agent was not called
	Unavailable      = Fault{unavailable, 0}      // refused like by a draining gateway, not queued
)

var faultNames = map[string]Fault{
	"None": None, "NoAnswer": NoAnswer, "NeverDelivered": NeverDelivered, "DropUnqueued": DropUnqueued,
	"DropQueued": DropQueued, "DropExecuted": DropExecuted, "AcceptDropBefore": AcceptDropBefore,
	"AcceptDropAfter": AcceptDropAfter, "AcceptNeverRun": AcceptNeverRun, "AcceptThenFail": AcceptThenFail,
	"OKWithoutWork": OKWithoutWork, "Unavailable": Unavailable,
}

// FaultNamed returns the fault of a name as above.
func FaultNamed(name string) (Fault, error) {
	f, ok := faultNames[name]
	if !ok {
		return Fault{}, fmt.Errorf("no fault %q", name)
	}
	return f, nil
}

// String returns the fault's name.
func (f Fault) String() string {
	for name, known := range faultNames {
		if known.kind == f.kind {
			return name
		}
	}
	return "unknown fault"
}

// faults are what tests have the gateway do.
type faults struct {
	lock *sync.Mutex // the gateway's mu; guards what follows

	ofAgent     []Fault
	ofDial      []DialFault
	reorder     int
	held        []func()
	padHello    int
	ignorePings bool
	granted     *[]string
}

// Inject lets the next requests of method agent meet these faults, one each.
func (f *faults) Inject(next ...Fault) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ofAgent = append(f.ofAgent, next...)
}

func (f *faults) takeFault() Fault {
	if len(f.ofAgent) == 0 {
		return None
	}
	first := f.ofAgent[0]
	f.ofAgent = f.ofAgent[1:]
	return first
}

// A DialFault is what befalls one connection before its hello-ok.
type DialFault struct {
	status   int    // answer the upgrade with this
	reset    bool   // reset the TCP connection at the upgrade
	stall    bool   // never answer connect, until the handshake limit
	starting bool   // as a gateway that is not ready
	refuse   string // name of a refusal
	closed   bool   // close with code and nothing else
	cut      Cut
	detail   string
}

// DialStatus answers the HTTP upgrade with a status.
func DialStatus(status int) DialFault { return DialFault{status: status} }

// DialReset resets the connection at the upgrade.
func DialReset() DialFault { return DialFault{reset: true} }

// DialStall leaves the connect request unanswered, as a busy gateway does,
// until the handshake limit: then close 1000 without a reason.
func DialStall() DialFault { return DialFault{stall: true} }

// DialStarting answers as a gateway that is not ready: UNAVAILABLE and 1013.
func DialStarting() DialFault { return DialFault{starting: true} }

// DialCut ends the connection instead of answering connect.
func DialCut(how Cut, reason string) DialFault {
	return DialFault{closed: true, cut: how, detail: reason}
}

// DialRefuse answers connect with a refusal by its details.code, or by another
// name from Refusals.
func DialRefuse(name string) DialFault {
	if _, ok := refusals[name]; !ok {
		panic(fmt.Sprintf("gatewaytest: no refusal %q", name))
	}
	return DialFault{refuse: name}
}

// InjectDial lets the next connections meet these faults, one each.
func (f *faults) InjectDial(next ...DialFault) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ofDial = append(f.ofDial, next...)
}

func (f *faults) takeDialFault() DialFault {
	if len(f.ofDial) == 0 {
		return DialFault{}
	}
	first := f.ofDial[0]
	f.ofDial = f.ofDial[1:]
	return first
}

// Cut ends all open connections.
func (g *Gateway) Cut(how Cut) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.proc.conns {
		c.cut(how)
	}
}

// Broadcast sends a raw text frame to all open connections.
func (g *Gateway) Broadcast(frame string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.proc.conns {
		c.enqueue(outItem{data: []byte(frame)})
	}
}

// Reorder holds the next n first answers to method agent and then sends them
// in reverse order.
func (f *faults) Reorder(n int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.reorder = n
}

// Release ends Reorder: what it holds is sent, in reverse order.
func (f *faults) Release() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.release()
}

func (f *faults) release() {
	slices.Reverse(f.held)
	for _, send := range f.held {
		send()
	}
	f.held, f.reorder = nil, 0
}

// ordered calls send, or holds it for Reorder.
func (f *faults) ordered(send func()) {
	if f.reorder == 0 {
		send()
		return
	}
	f.held = append(f.held, send)
	if len(f.held) == f.reorder {
		f.release()
	}
}

// PadHello makes hello-ok at least n bytes long.
func (f *faults) PadHello(n int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.padHello = n
}

// IgnorePings stops answering pings.
func (f *faults) IgnorePings() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.ignorePings = true
}

// GrantScopes makes new connections get these scopes, whatever they ask for;
// reports of versions between the two say that it happens to signed clients.
func (f *faults) GrantScopes(scopes ...string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.granted = &scopes
}

// Approve pairs the device that asked last: openclaw devices approve.
func (g *Gateway) Approve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paired[g.asking[0]] = g.asking[1]
}

// SetToken changes the gateway's token for new connections.
func (g *Gateway) SetToken(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = token
}

// closeCode returns the code to send for a cut, zero if there is none.
func (c Cut) closeCode() websocket.StatusCode { return websocket.StatusCode(max(c, 0)) }
