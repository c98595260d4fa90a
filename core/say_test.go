package core

import (
	"testing"

	"otm/pipeline"
)

// A message is kept with its author and its words, changes no status, and counts as a word
// of the agent that has the task. An agent that speaks on another's task was not heard there.
func TestMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	heard := w.task().HeardOf("devdas").At
	for _, tt := range []struct {
		by   Actor
		do   Action
		want string
		word bool
	}{
		{devdas, Report{Drop: "u1.json", Dropped: w.now, Message: pipeline.Message{Text: "half of it", Percent: ptr(50), Mentions: []string{"kim"}}}, "[PROGRESS] half of it (50%) @kim", true},
		{devdas, Say{pipeline.Message{Text: "which one?", Tag: pipeline.TagEscalate}}, "[ESCALATE] which one?", true},
		{ByAgent("kim"), Say{pipeline.Message{Text: "the blue one"}}, "the blue one", false},
		{ada, Say{pipeline.Message{Text: "yes"}}, "yes", false},
	} {
		w.must(Command{Task: 1, By: tt.by, Do: tt.do})
		w.want(pipeline.InProgress)
		last := w.task().LastMessage
		if last.By != tt.by || last.String() != tt.want || last.At != w.now {
			t.Errorf("the last message is %q by %v at %v, want %q by %v", last, last.By, last.At, tt.want, tt.by)
		}
		is := w.task().HeardOf("devdas").At
		if is.After(heard) != tt.word {
			t.Errorf("%q: devdas was heard at %v, before at %v", tt.want, is, heard)
		}
		heard = is
	}
	if _, ok := w.task().Heard["kim"]; ok {
		t.Error("kim was heard of on a task of devdas")
	}
	w.checkRebuild()
}

// What an agent was shown is not taken back.
func TestReadMentions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, to := range []int64{7, 5} {
		w.must(Command{Agent: "kim", By: ByAgent("kim"), Do: ReadMentions{to}})
		if got := w.state.Agents["kim"].ReadTo; got != 7 {
			t.Errorf("read to %d, want 7", got)
		}
	}
	if n := len(w.events); n != 1 {
		t.Errorf("%d events, want one", n)
	}
}
