package app

import (
	"context"
	"time"

	"otm/core"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
)

// Tasks returns the tasks that the store has after one, in the order of their ids: at most
// so many, of a status and an agent where one is given. Without a status, those that are over
// are left out unless all are wanted. more reports whether others follow.
func (b *Backend) Tasks(ctx context.Context, status pipeline.Status, agent string, all bool, after pipeline.TaskID, limit int) (cards []view.Card, more bool, err error) {
	s, err := b.Home.OpenStore(ctx)
	if err != nil {
		return nil, false, err
	}
	tasks, err := s.Tasks(ctx, core.Filter{Live: !all && !status.Over()})
	cards = []view.Card{}
	for _, t := range tasks {
		switch {
		case t.ID <= after, agent != "" && !core.SameAgent(t.Agent, agent), status != "" && t.Status != status, status == "" && !all && t.Status.Over():
			continue
		case len(cards) == limit:
			return cards, true, nil
		}
		cards = append(cards, view.CardOf(t, b.Home.Config.Types))
	}
	return cards, false, err
}

// Task returns what is known of a task.
func (b *Backend) Task(ctx context.Context, id pipeline.TaskID) (*Shown, error) {
	v, err := loadView(ctx, b.Home, nil, false)
	if err != nil {
		return nil, err
	}
	s, t, err := shownOf(v, id)
	switch {
	case err != nil:
		return nil, err
	case t.Row == nil && t.State == nil && s.Why.Stage == why.IsUnknown:
		return nil, core.ErrNoTask
	}
	s.State = nil // the card says what others need
	if s.Task == nil && t.State != nil {
		card := t.Card()
		s.Task = &card
	}
	return &s, nil
}

// Agents returns who works at what.
func (b *Backend) Agents(ctx context.Context) ([]AgentLine, error) {
	v, err := loadView(ctx, b.Home, nil, true)
	if err != nil {
		return nil, err
	}
	return agentLines(v)
}

// Dead returns the tasks and drops that failed.
func (b *Backend) Dead(ctx context.Context) ([]DeadLetter, error) {
	v, err := loadView(ctx, b.Home, nil, false)
	if err != nil {
		return nil, err
	}
	return deadLetters(v)
}

// View returns how the directory stands.
func (b *Backend) View(ctx context.Context) (*view.View, error) {
	return loadView(ctx, b.Home, nil, true)
}

// Incidents returns the incidents that stand; with all, those that are closed too; since a
// time, those that stood then or later.
func (b *Backend) Incidents(ctx context.Context, all bool, since time.Time) ([]ShownIncident, error) {
	s, err := b.Home.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.Incidents(ctx, core.IncidentFilter{Open: !all && since.IsZero(), Since: since})
	shown := []ShownIncident{}
	for _, i := range found {
		shown = append(shown, showIncident(i, b.Home.Now()))
	}
	return shown, err
}
