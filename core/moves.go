package core

import (
	"slices"

	"otm/pipeline"
)

// Move is a row of the table of moves: who may move a task from which status to
// which. MODEL names the codes.
type Move struct {
	Code string
	From []pipeline.Status
	To   pipeline.Status
	By   []Kind
	When string // for docs/state-machine.md
}

// Overridden is what the table gives as code of a person's move that it does not have.
const Overridden = ""

// Moves is the table. A person may besides move a task from any status to any other:
// that is recorded as an override. A repeated status is no move.
var Moves = []Move{
	{Code: "TT-01", From: []pipeline.Status{pipeline.New}, To: pipeline.Assigned, By: []Kind{OTM}, When: "it is handed out: its entry is written, the board shows it, its agent is woken"},
	{Code: "TT-02", From: []pipeline.Status{pipeline.Assigned}, To: pipeline.InProgress, By: []Kind{Agent, Worker}, When: "the agent begins: by otm next, or by a report; so does the first step that it reports"},
	{Code: "TT-02", From: []pipeline.Status{pipeline.New}, To: pipeline.InProgress, By: []Kind{Worker}, When: "begun before it was handed out"},
	{Code: "TT-03", From: []pipeline.Status{pipeline.New}, To: pipeline.Pending, By: []Kind{OTM}, When: "it is handed out, and its agent has another task"},
	{Code: "TT-04", From: []pipeline.Status{pipeline.Assigned, pipeline.InProgress, pipeline.Blocked}, To: pipeline.AgentDone, By: []Kind{Agent, Worker}, When: "its part is done; open steps stay open; the reason of a rework is cleared"},
	{Code: "TT-04", From: []pipeline.Status{pipeline.New}, To: pipeline.AgentDone, By: []Kind{Worker}, When: "done before it was handed out"},
	{Code: "TT-04", From: []pipeline.Status{pipeline.InProgress}, To: pipeline.AgentDone, By: []Kind{OTM}, When: "all steps are done, one of which was open when the agent took the task"},
	{Code: "TT-02", From: []pipeline.Status{pipeline.Pending, pipeline.Failed}, To: pipeline.InProgress, By: []Kind{Agent}, When: "it reports on its last run after all: the run goes on, its failure is struck"},
	{Code: "TT-05", From: []pipeline.Status{pipeline.Pending}, To: pipeline.Assigned, By: []Kind{OTM}, When: "the reason to wait is gone: its agent is woken for it or takes it, or it is handed out again"},
	{Code: "TT-05", From: []pipeline.Status{pipeline.Pending}, To: pipeline.New, By: []Kind{OTM}, When: "the reason to wait is gone, and the task is claimed from the shared queue"},
	{Code: "TT-06", From: []pipeline.Status{pipeline.AgentDone}, To: pipeline.Done, By: []Kind{Person, Board, Reviewer}, When: "accepted"},
	{Code: "TT-06", From: []pipeline.Status{pipeline.AgentDone}, To: pipeline.Done, By: []Kind{OTM}, When: "its type needs no review: at once"},
	{Code: "TT-07", From: []pipeline.Status{pipeline.AgentDone}, To: pipeline.Rejected, By: []Kind{Person, Board, Reviewer}, When: "not good enough; rework is being prepared"},
	{Code: "TT-08", From: []pipeline.Status{pipeline.Rejected}, To: pipeline.New, By: []Kind{Person, Board, Reviewer}, When: "the rework is prepared: it is handed out again, to its agent"},
	{Code: "TT-10", From: []pipeline.Status{pipeline.New, pipeline.Assigned, pipeline.Pending, pipeline.InProgress, pipeline.Blocked, pipeline.AgentDone, pipeline.Rejected, pipeline.Failed, pipeline.Dormant}, To: pipeline.Cancelled, By: []Kind{Person, Board, Reviewer}, When: "no longer wanted"},
	{Code: "TT-12", From: []pipeline.Status{pipeline.Done, pipeline.Cancelled}, To: pipeline.Archived, By: []Kind{Person, Board}, When: "put away"},
	{Code: "TT-13", From: []pipeline.Status{pipeline.Assigned, pipeline.InProgress, pipeline.Blocked, pipeline.Pending}, To: pipeline.Failed, By: []Kind{OTM, Agent, Worker}, When: "its run failed, and no retry is left or makes sense"},
	{Code: "TT-14", From: []pipeline.Status{pipeline.Failed}, To: pipeline.New, By: []Kind{Person, Board, Reviewer}, When: "to be tried again"},
	{Code: "TT-16", From: []pipeline.Status{pipeline.Assigned, pipeline.InProgress}, To: pipeline.Blocked, By: []Kind{Agent, Worker}, When: "the agent cannot go on; a reason is required"},
	{Code: "TT-16", From: []pipeline.Status{pipeline.New}, To: pipeline.Blocked, By: []Kind{Worker}, When: "a reason is required"},
	{Code: "TT-16", From: []pipeline.Status{pipeline.New, pipeline.Pending, pipeline.Assigned, pipeline.InProgress, pipeline.AgentDone}, To: pipeline.Blocked, By: []Kind{Person, Board, Reviewer}, When: "something outside holds it up"},
	{Code: "TT-17", From: []pipeline.Status{pipeline.Blocked}, To: pipeline.InProgress, By: []Kind{Agent, Worker}, When: "it can go on; the reason is cleared"},
	{Code: "TT-17", From: []pipeline.Status{pipeline.Blocked}, To: pipeline.New, By: []Kind{Person, Board, Reviewer}, When: "answered: the task is handed out again"},
	{Code: "TT-17", From: []pipeline.Status{pipeline.Blocked}, To: pipeline.InProgress, By: []Kind{Person, Board, Reviewer}, When: "answered: its agent goes on"},
	{Code: "TT-21", From: []pipeline.Status{pipeline.InProgress, pipeline.Blocked}, To: pipeline.Pending, By: []Kind{OTM}, When: "its run failed, or was taken from a silent agent by reclaim_after; the next one follows"},
	{Code: "TT-22", From: []pipeline.Status{pipeline.New, pipeline.Assigned, pipeline.Pending, pipeline.Blocked, pipeline.AgentDone, pipeline.Rejected, pipeline.Failed}, To: pipeline.Dormant, By: []Kind{Person, Board}, When: "set aside"},
	{Code: "TT-22", From: []pipeline.Status{pipeline.Dormant}, To: pipeline.New, By: []Kind{Person, Board}, When: "no longer set aside"},
	{Code: "TT-22", From: []pipeline.Status{pipeline.InProgress}, To: pipeline.Dormant, By: []Kind{Person, Board}, When: "stopped: its run is canceled, and the process of its agent is ended"},
	{Code: "TT-23", From: []pipeline.Status{pipeline.New}, To: pipeline.InProgress, By: []Kind{Agent}, When: "claimed from the shared queue"},
	{Code: "TT-24", From: []pipeline.Status{pipeline.Assigned, pipeline.InProgress, pipeline.Pending}, To: pipeline.New, By: []Kind{Person, Board, Reviewer}, When: "released, sent back, or given to another agent"},
	{Code: "TT-24", From: []pipeline.Status{pipeline.Assigned, pipeline.InProgress}, To: pipeline.New, By: []Kind{OTM}, When: "otm.toml gave its agent another name"},
	{Code: "TT-25", From: []pipeline.Status{pipeline.Assigned}, To: pipeline.Pending, By: []Kind{OTM}, When: "its agent took another task, or is not started for a while; or its run failed, which only the mark in the dispatch file showed"},
	{Code: "TT-26", From: []pipeline.Status{pipeline.Done, pipeline.AgentDone}, To: pipeline.New, By: []Kind{Person, Board, Reviewer}, When: "sent back, or reopened"},
}

// Permitted reports whether somebody may move a task, and the code of the move. A
// person may make every move.
func Permitted(from, to pipeline.Status, by Kind) (code string, ok bool) {
	for i := range Moves {
		m := &Moves[i]
		if m.To == to && slices.Contains(m.From, from) && slices.Contains(m.By, by) {
			return m.Code, true
		}
	}
	return Overridden, from != to && (by == Person || by == Board)
}

// Reachable lists where somebody may move a task from a status.
func Reachable(from pipeline.Status, by Kind) []pipeline.Status {
	return pipeline.Filter(pipeline.Statuses, func(s pipeline.Status) bool {
		_, ok := Permitted(from, s, by)
		return ok && s != from
	})
}
