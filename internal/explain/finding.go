// Package explain holds what OTM says about the state of things: findings as
// data, and one table with the sentence and the next step of each.
//
// A component, a check or a reader makes a [Finding]; programs compare its
// code, and people read what [Finding.Text] and [Finding.Next] make of it. No
// code anywhere decides from those texts.
package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"otm/internal/safe"
	"otm/pipeline"
)

// Code names one kind of finding. It is stable: heartbeats and --json hold it.
type Code string

// Finding is one thing that was found, as data.
type Finding struct {
	Code Code              `json:"code"`
	Task pipeline.TaskID   `json:"task,omitempty"` // 0: it concerns no single task
	Args map[string]string `json:"args,omitempty"` // by the names in the text
}

// New makes a finding. args are pairs of a name and a value: text, a number, a
// time, a duration or an error.
func New(code Code, args ...any) Finding {
	f := Finding{Code: code}
	if len(args) > 0 {
		f.Args = make(map[string]string, len(args)/2)
	}
	for i := 0; i+1 < len(args); i += 2 {
		f.Args[args[i].(string)] = value(args[i+1])
	}
	return f
}

// value writes an argument so that the text can format it, also after it has
// been through JSON. A zero time is one that is not known: "".
func value(v any) string {
	if t, ok := v.(time.Time); ok {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

// On returns the finding as one about a task.
func (f Finding) On(id pipeline.TaskID) Finding {
	f.Task = id
	return f
}

// Equal reports whether two findings say the same.
func (f Finding) Equal(g Finding) bool {
	return f.Code == g.Code && f.Task == g.Task && maps.Equal(f.Args, g.Args)
}

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, but not for long or not well
	Fail Level = "fail" // something does not work
)

// Severity orders levels; a higher one is worse.
func (l Level) Severity() int { return map[Level]int{Warn: 1, Fail: 2}[l] }

// text is what the table holds for one code.
type text struct {
	level Level
	says  string
	next  string // what to do, or the line to run; "": nothing
	or    string // what may be done instead; "": nothing
}

// texts is the table. The other files of this package fill it.
var texts = map[Code]text{}

// code puts an entry into the table. In says, next and or, {name} stands for an
// argument, and {name:form} for one in a form, see [form].
func code(c Code, level Level, says, next string, or ...string) Code {
	if _, twice := texts[c]; twice {
		panic("explain: two texts for " + string(c))
	}
	texts[c] = text{level, says, next, strings.Join(or, "")}
	return c
}

// Level returns how bad the finding is; Warn for a code that this version does
// not know.
func (f *Finding) Level() Level { return cmp.Or(texts[f.Code].level, Warn) }

// Text is the finding as a sentence for people at the time now; zero: for people
// who read it at another time. What others wrote stands in it as it is: escape it
// where it is printed.
func (f *Finding) Text(now time.Time) string {
	t, known := texts[f.Code]
	if !known {
		return string(f.Code) // written by a newer version
	}
	return f.fill(t.says, now)
}

// Sentence is Text with the task that the finding concerns in front.
func Sentence(f *Finding, now time.Time) string { return f.onTask(f.Text(now)) }

// Fact is the start of Sentence: what was found, without what follows from it after a
// semicolon, such as what OTM does about it. It is for what holds no more.
func Fact(f *Finding, now time.Time) string {
	says, _, _ := strings.Cut(texts[f.Code].says, ";")
	return f.onTask(cmp.Or(f.fill(says, now), string(f.Code)))
}

func (f *Finding) onTask(text string) string {
	if f.Task == 0 || strings.Contains(texts[f.Code].says, "{task}") || strings.HasPrefix(text, f.Task.String()) {
		return text
	}
	return f.Task.String() + ": " + text
}

// Line is Sentence with the next step behind.
func Line(f *Finding, now time.Time) string { return Tell(*f, now).Line() }

// Told is a finding with its words, as --json prints it.
type Told struct {
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"` // what to run or to do
	Or    string `json:"or,omitempty"`   // what may be done instead
	Finding
}

// Tell puts a finding into words.
func Tell(f Finding, now time.Time) Told {
	return Told{Level: f.Level(), Text: Sentence(&f, now), Hint: f.Next(now), Or: f.Or(now), Finding: f}
}

// Line is the finding with the next step behind.
func (t Told) Line() string {
	line := t.Text
	if t.Hint != "" {
		line += " → " + t.Hint
	}
	if t.Or != "" {
		line += "; or: " + t.Or
	}
	return line
}

// Next is what to do about it, or the command to run; "": nothing.
func (f *Finding) Next(now time.Time) string { return f.fill(texts[f.Code].next, now) }

// Or is what may be done instead of Next; "": nothing.
func (f *Finding) Or(now time.Time) string { return f.fill(texts[f.Code].or, now) }

func (f *Finding) fill(template string, now time.Time) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		name, as, _ := strings.Cut(name, ":")
		if name == "task" && f.Args[name] == "" { // else it is another one
			b.WriteString(f.Task.String())
		} else {
			b.WriteString(form(f.Args[name], as, now))
		}
		template = after
	}
}

// form writes an argument in one of the forms:
//
//	ago     a time, as "5m ago"
//	age     a time, as "5m"
//	when    a time to come, as "at 2026-11-29T15:04:05Z"
//	at      a time, as RFC 3339
//	quoted  in double quotes
//	sh      as one word of a shell
//	A|B     a count with its noun: "1 A" or "3 B"
func form(value, as string, now time.Time) string {
	if one, many, counts := strings.Cut(as, "|"); counts {
		n, _ := strconv.Atoi(value)
		return Count(n, one, many)
	}
	switch as {
	case "quoted":
		return strconv.Quote(value)
	case "sh":
		return safe.Quote(value)
	case "":
		return value
	}
	at, err := time.Parse(time.RFC3339Nano, value)
	switch {
	case err != nil && value != "":
		return value
	case as == "age" && (at.IsZero() || !now.IsZero() && at.Sub(now) > clockSlack): // the clock was set back
		return "an unknown time"
	}
	switch as {
	case "ago":
		return Ago(at, now)
	case "age":
		if now.IsZero() { // it is read later
			return "some time (since " + Time(at) + ")"
		}
		return Age(now.Sub(at))
	case "when":
		return When(at, now)
	}
	return Time(at)
}

// Time writes a time for people, as all of OTM does: RFC 3339 in UTC.
func Time(at time.Time) string {
	if at.IsZero() {
		return "an unknown time"
	}
	return at.UTC().Format(time.RFC3339)
}

// Count is a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Age is a duration in one unit. One below zero comes from a clock that was set
// back; it counts as zero.
func Age(d time.Duration) string {
	switch {
	case d == math.MaxInt64: // since a time that is zero
		return "?"
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// clockSlack is how far ahead of now a time may be that still counts as now:
// many times are written in whole seconds.
const clockSlack = 2 * time.Second

// Ago says how long ago a time was. A time ahead of now was written before the
// clock was set back (C43). Where now is zero, the text is kept for later: it has
// the time itself.
func Ago(at, now time.Time) string {
	if now.IsZero() || at.IsZero() {
		return "at " + Time(at)
	}
	if at.Sub(now) > clockSlack {
		return "at " + Time(at) + ", ahead of this machine's clock"
	}
	return Age(now.Sub(at)) + " ago"
}

// When says when something is planned that is due at a time. What is due already
// happens with the dispatcher's next pass.
func When(at, now time.Time) string {
	if !at.After(now) {
		return "with the dispatcher's next pass"
	}
	return "at " + Time(at)
}
