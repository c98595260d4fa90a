package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/pipeline"
)

// spec is a task that somebody wants.
type spec struct {
	Title    string   `json:"title"`
	Agent    string   `json:"agent"`
	Priority string   `json:"priority"`
	Subtasks []string `json:"subtasks,omitempty"`
	Key      string   `json:"key,omitempty"`
}

func (s *soak) spec(random *rand.Rand, title string) spec {
	p := spec{Title: title, Agent: s.agents[random.IntN(len(s.agents))], Priority: string(pipeline.Priorities[random.IntN(len(pipeline.Priorities))])}
	if random.IntN(12) == 0 {
		p.Agent = "olga"
	}
	titles := []string{"same", "same", "write it", "read it"}
	for range random.IntN(4) {
		p.Subtasks = append(p.Subtasks, titles[random.IntN(len(titles))])
	}
	return p
}

// creator creates tasks while there is room: one by one without a key, which is
// never repeated; with a key, until it is told the id; and many at once.
func (s *soak) creator(name string) func(context.Context) {
	return func(ctx context.Context) {
		random := s.random(name)
		for n := 0; s.waitForRoom(ctx); n++ {
			title := fmt.Sprintf("%s %d", name, n)
			switch random.IntN(3) {
			case 0:
				s.create(s.spec(random, title))
			case 1:
				p := s.spec(random, title)
				p.Key = title
				for s.create(p) == 0 {
				}
			default:
				var all []spec
				for i := range 1 + random.IntN(s.block) {
					p := s.spec(random, fmt.Sprintf("%s.%d", title, i))
					p.Key = p.Title
					all = append(all, p)
				}
				for s.createAll(all) == 0 {
				}
			}
		}
	}
}

// waitForRoom waits until fewer tasks are open than may be.
func (s *soak) waitForRoom(ctx context.Context) bool {
	for ctx.Err() == nil && !s.Failed() && (s.most == 0 || s.known() < s.most) {
		if s.open() < s.room {
			return true
		}
		pause(ctx, 20*time.Millisecond)
	}
	return false
}

// known counts the tasks that were asked for.
func (s *soak) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.titles)
}

// idOf is the id that was printed for a title.
func (s *soak) idOf(title string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.titles[title]
}

// open counts the tasks that somebody was told of and that are not over.
func (s *soak) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, text := range s.titles {
		id, err := pipeline.ParseFileID(text)
		if err != nil || s.over[id] {
			continue
		}
		if s.isOver(id) {
			s.over[id] = true
			continue
		}
		n++
	}
	return n
}

// isOver reports whether nothing more is to be done about a task.
func (s *soak) isOver(id pipeline.TaskID) bool {
	t := s.store.load(id)
	return t.Status.Finished() || t.Away()
}

// create creates a task with flags, and returns how many ids were printed.
func (s *soak) create(p spec) int {
	line := []string{"otm-create", "--title", p.Title, "--agent", p.Agent, "--priority", p.Priority}
	for _, title := range p.Subtasks {
		line = append(line, "--subtask", title)
	}
	if p.Key != "" {
		line = append(line, "--key", p.Key)
	}
	return s.created("", line, p)
}

// createAll creates tasks as one block.
func (s *soak) createAll(all []spec) int {
	var lines strings.Builder
	for _, p := range all {
		data, err := json.Marshal(p)
		if err != nil {
			s.Error(err)
		}
		fmt.Fprintf(&lines, "%s\n", data)
	}
	return s.created(lines.String(), []string{"otm-create", "--from", "-"}, all...)
}

func (s *soak) created(stdin string, line []string, all ...spec) int {
	out, said, code := s.do(stdin, line...)
	ids := strings.Fields(out)
	if len(ids) != 0 && len(ids) != len(all) || code != 0 && code != -1 && code != 75 {
		s.Errorf("%v: exit %d, printed %q, said %s", line, code, out, said)
		return -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range all {
		if len(ids) == 0 {
			s.titles[p.Title] += ""
			continue
		}
		if before := s.titles[p.Title]; before != "" && before != ids[i] {
			s.Errorf("%q was acknowledged as %s, and then as %s", p.Title, before, ids[i])
		}
		s.titles[p.Title] = ids[i]
	}
	return len(ids)
}

// ringBells gives each agent one more task, as one that died at work is only
// woken for what waits.
func (s *soak) ringBells() {
	for _, name := range s.agents {
		title := "bell of " + name
		for s.create(spec{Title: title, Agent: name, Priority: "batchable", Key: title}) == 0 {
		}
	}
}

// people are persons at the board: they answer, review, and do what people do.
func (s *soak) people(name string) func(context.Context) {
	return func(ctx context.Context) {
		random := s.random(name)
		cleared := map[string]bool{}
		for n := 0; ctx.Err() == nil; n++ {
			if cards, err := s.desk.cards(); err == nil {
				s.duties(random, cards)
				if s.load.Load() && random.IntN(3) == 0 {
					s.mischief(random, cards, cleared, n)
				}
			}
			pause(ctx, time.Duration(random.IntN(200))*time.Millisecond)
		}
	}
}

// duties is what agents and the others wait for.
func (s *soak) duties(random *rand.Rand, cards []card) {
	var reviewed, answered []string
	for _, c := range cards {
		if !c.isTask() {
			continue
		}
		switch status := c.cells["status"]; {
		case status == "agent_done" && random.IntN(4) > 0,
			c.cells["assignee"] == "olga" && slices.Contains([]string{"assigned", "in_progress"}, status):
			reviewed = append(reviewed, c.ID)
		case slices.Contains([]string{"blocked", "pending", "dormant", "failed"}, status):
			s.touch(&c, "answered")
			answered = append(answered, c.ID)
		}
	}
	if len(reviewed) > 0 {
		s.desk.set("status", "done", reviewed...)
	}
	if len(answered) > 0 {
		s.desk.set("status", "new", answered...)
	}
}

// isKnown reports whether the record of a card's task knows its row.
func (s *soak) isKnown(c *card) bool {
	id, err := pipeline.ParseTaskID(c.cells["task_id"])
	if err != nil {
		return false
	}
	return s.store.load(id).RowID == c.ID
}

// touch notes, before it is done, that a person takes part in a task.
func (s *soak) touch(c *card, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.cells["task_id"]
	s.touched[id] = append(s.touched[id], how)
}

// mischief is what people do besides. They work with the token of the board, by
// which OTM does not know them from itself: what hangs on who it was is not for
// them.
func (s *soak) mischief(random *rand.Rand, cards []card, cleared map[string]bool, n int) {
	tasks := slices.DeleteFunc(slices.Clone(cards), func(c card) bool { return !c.isTask() })
	if len(tasks) == 0 {
		return
	}
	c := tasks[random.IntN(len(tasks))]
	edit := func(how, key, value string) {
		s.touch(&c, how)
		s.desk.set(key, value, c.ID)
	}
	switch random.IntN(8) {
	case 0:
		edit("cancelled", "status", "cancelled")
	case 1:
		edit("given away", "assignee", append(s.agents, "olga")[random.IntN(len(s.agents)+1)])
	case 2:
		s.desk.set("priority", "critical", c.ID)
	case 3:
		// Whoever does it again is told instead of fought; of a row that OTM
		// itself does not know yet, it makes a second task.
		if !cleared[c.ID] && s.isKnown(&c) {
			cleared[c.ID] = true
			edit("id cleared", "task_id", "")
		}
	case 4:
		s.touch(&c, "deleted")
		s.desk.remove(c.ID)
	case 5:
		edit("put off", "status", "pending")
	case 6:
		edit("sent back", "status", "new")
	case 7:
		s.desk.add("title", fmt.Sprint("typed ", n), "assignee", s.agents[random.IntN(len(s.agents))])
	}
}

// housekeeper archives what is done, and looks around; what it is told may be
// trouble, but no command may break down.
func (s *soak) housekeeper(ctx context.Context) {
	random := s.random("housekeeper")
	for took := time.Duration(0); ctx.Err() == nil; {
		pause(ctx, time.Duration(random.IntN(1000))*time.Millisecond+5*took) // with many tasks, it would do nothing else
		lines := [][]string{
			{"otm", "archive", "--older-than", "0d", "--yes"}, {"otm", "archive", "--older-than", "0d", "--yes"},
			{"otm", "status"}, {"otm", "list", "--json"}, {"otm", "why", "--all"}, {"otm", "show", "1"}, {"otm", "fsck"}, {"otm", "history"},
		}
		began := time.Now()
		s.do("", lines[random.IntN(len(lines))]...)
		took = time.Since(began)
	}
}

// vandal rewrites an agent's dispatch file without its lock: it takes entries
// out, or leaves garbage.
func (s *soak) vandal(agent string) func(context.Context) {
	return func(ctx context.Context) {
		random := s.random("vandal")
		path := filepath.Join(s.workspace(agent), "task-dispatch.json")
		for ; ctx.Err() == nil; pause(ctx, time.Duration(random.IntN(2000))*time.Millisecond) {
			data, err := os.ReadFile(path)
			var file map[string][]json.RawMessage
			if err != nil || json.Unmarshal(data, &file) != nil || len(file["dispatched"]) == 0 {
				continue
			}
			list := file["dispatched"]
			i := random.IntN(len(list))
			file["dispatched"] = slices.Delete(list, i, i+1)
			if data, err = json.Marshal(file); err != nil || random.IntN(5) == 0 {
				data = []byte("{")
			}
			os.WriteFile(path+"~", data, 0o600)
			os.Rename(path+"~", path)
		}
	}
}
