package view

import (
	"strings"
	"testing"

	"otm/core"
	"otm/pipeline"
)

// Each type of event has words of its own, in one line, whatever it holds.
func TestEveryEventHasWords(t *testing.T) {
	t.Parallel()
	for _, typ := range core.Types() {
		for _, payload := range []string{"{}", `{"why":"paused","state":{"paused":{"reason":"its key"}},"first":true,"again":true,"process":true}`} {
			data, err := core.DecodeData(typ, []byte(payload))
			if err != nil {
				continue // it has a field of this name in another form
			}
			e := core.Event{Task: 1, Agent: "devdas", By: core.Actor{Kind: core.OTM}, Data: data}
			said := Words(&e)
			if strings.TrimSpace(said) == "" || strings.Contains(said, typ) || strings.Contains(said, "\n") || strings.Contains(said, "0001-01-01") {
				t.Errorf("%s %s: %q", typ, payload, said)
			}
		}
	}
	for want, data := range map[string]core.Data{
		"paused (its key)":                                         core.AgentChanged{Why: core.Paused, State: core.AgentState{Paused: &core.Pause{Reason: "its key"}}},
		"a run ended (2 failed in a row)":                          core.AgentChanged{Why: core.StartJudged, State: core.AgentState{Failures: 2}},
		"handed out (devdas, attempt 1)":                           core.HandedOut{Agent: "devdas", Attempt: 1},
		"about to be woken (devdas, gateway otm-1)":                core.WakeBegun{Wake: core.Wake{Agent: "devdas", Via: pipeline.TriggerGateway, Key: "otm-1"}},
		"reported (x.json)":                                        core.Noted{Drop: "x.json"},
		"ended (turn of devdas: nobody saw how)":                   core.StartEnded{Agent: "devdas"},
		"ended (turn of devdas: timeout)":                          core.StartEnded{Agent: "devdas", StartResult: core.StartResult{Outcome: core.OutcomeTimeout, Exit: "timeout"}},
		"status (new to assigned)":                                 core.TaskMoved{From: pipeline.New, To: pipeline.Assigned},
		"written to the board":                                     core.BoardWritten{},
		"its configuration or program changed":                     core.AgentChanged{Why: core.Reconfigured},
		"dropped again, and skipped (x.json)":                      core.DuplicateSkipped{Drop: "x.json"},
		"nobody knows how the run ended (otm-1)":                   core.StartUnknown{Key: "otm-1"},
		"its agent works elsewhere now (/w)":                       core.WorkspaceMoved{Workspace: "/w"},
		"taken (update)":                                           core.Acknowledged{By: core.TakenByUpdate},
		"dispatched again (devdas, attempt 2)":                     core.HandedOut{Agent: "devdas", Attempt: 2},
		"woken (devdas, gateway otm-1)":                            core.Notified{Agent: "devdas", Via: pipeline.TriggerGateway, Key: "otm-1"},
		"taken from its agent (devdas, which is to be told)":       core.TakenAway{Loss: core.Loss{Agent: "devdas"}},
		"told that it was taken away (devdas, gateway otm-1-loss)": core.Notified{Agent: "devdas", Via: pipeline.TriggerGateway, Key: "otm-1-loss", Loss: true},
		"wake not sent (otm-1)":                                    core.WakeFailed{Key: "otm-1"},
		"run ended unfinished (run 1: a)":                          core.RunFailed{Run: 1, Failure: core.Failure{Words: "a", Free: true}},
		"run failed (run 2: a)":                                    core.RunFailed{Run: 2, Failure: core.Failure{Words: "a"}},
		"repaired (title, status, title of step 2)":                core.ReconciliationDrift{Fields: []pipeline.Field{"title", "status"}, Steps: []int{2}},
	} {
		if got := Words(&core.Event{Task: 1, By: core.Actor{Kind: core.OTM}, Data: data}); got != want {
			t.Errorf("%T: %q, want %q", data, got, want)
		}
	}
}
