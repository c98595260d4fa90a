package dispatch

import (
	"fmt"
	"strings"
	"testing"

	"otm/core"
	"otm/pipeline"
)

// says writes a message on a task.
func (w *world) says(by core.Actor, id pipeline.TaskID, text string, mentions ...string) {
	w.Helper()
	w.do(core.Command{By: by, Task: id, Do: core.Say{Message: pipeline.Message{Text: text, Tag: pipeline.TagNote, Mentions: mentions}}})
}

// news takes a task and returns what is new on it, and where the agent is mentioned.
func (w *world) news(agent string) (thread, mentions string) {
	w.Helper()
	desk := w.desk()
	taken, err := desk.Next(w.Context(), w.agent(agent), false)
	if err != nil {
		w.Fatal(err)
	}
	found, to, err := desk.Mentions(w.Context(), agent)
	if err == nil {
		err = desk.MentionsRead(w.Context(), agent, to)
	}
	if err != nil {
		w.Fatal(err)
	}
	if taken == nil {
		return "nothing", texts(found)
	}
	thread = fmt.Sprintf("%v %s+%d", taken.Task.ID, texts(taken.Messages), taken.Earlier)
	if t := taken.Task; t.Question != "" {
		thread += fmt.Sprintf("; %s? %s", t.Question, t.Reason)
	}
	return thread, texts(found)
}

func texts(all []Message) string {
	var parts []string
	for _, m := range all {
		parts = append(parts, m.What+" "+m.Text)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// An agent is shown what others wrote since it was given the task before, and what it was
// shown counts as read by that agent alone.
func TestMessagesAreNewOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	ada, alpha, beta := core.ByPerson("Ada"), core.ByAgent("alpha"), core.ByAgent("beta")
	id := w.create("x", "alpha", pipeline.Normal, "a", "b")
	w.pass()
	w.says(ada, id, "before", "beta")
	w.says(alpha, id, "my own", "alpha")
	expect := func(agent, thread, mentions string) {
		t.Helper()
		gotThread, gotMentions := w.news(agent)
		want(t, "thread of "+agent, gotThread, thread)
		want(t, "mentions of "+agent, gotMentions, mentions)
	}
	expect("alpha", "T-00001 [said before]+0", "[]")
	expect("alpha", "T-00001 []+1", "[]")
	expect("beta", "nothing", "[said before]")
	expect("beta", "nothing", "[]")
	w.says(beta, id, "from beta", "BETA", "alpha")
	w.report(id, pipeline.Blocked)
	w.edit(id, w.status(pipeline.InProgress), func(e *core.Edits) { answer := "green"; e.Reason = &answer })
	expect("alpha", "T-00001 [said from beta]+1; no key? green", "[]")
	expect("alpha", "T-00001 []+3; no key? green", "[]")

	// Another agent gets the task: all is new to it but its own words.
	w.edit(id, w.assignee("beta"))
	w.pass()
	expect("beta", "T-00001 [said before, said my own]+0; no key? green", "[]")
	expect("alpha", "nothing", "[]")
	w.says(beta, id, "yours?", "alpha")
	expect("alpha", "nothing", "[said yours?]")

	// The newest are shown; the rest are counted.
	for i := range maxMessages + 2 {
		w.says(ada, id, fmt.Sprint(i))
	}
	thread, _ := w.news("beta")
	if !strings.HasPrefix(thread, "T-00001 [said 2, ") || !strings.Contains(thread, fmt.Sprintf("said %d]+5;", maxMessages+1)) {
		t.Errorf("beta is shown %s", thread)
	}
}

// Messages that mention nobody are not read again for ever.
func TestUnmentionedIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta")
	id := w.create("x", "alpha", pipeline.Normal)
	for range maxUnread {
		w.says(core.ByPerson("Ada"), id, "x")
	}
	desk := w.desk()
	all, to, err := desk.Mentions(w.Context(), "beta")
	if err != nil || len(all) > 0 || to == 0 {
		t.Fatalf("%d mentions, read to %d, %v", len(all), to, err)
	}
	if err := desk.MentionsRead(w.Context(), "beta", to); err != nil {
		t.Fatal(err)
	}
	if _, to, err = desk.Mentions(w.Context(), "beta"); err != nil || to != 0 {
		t.Errorf("once more to %d, %v", to, err)
	}
}
