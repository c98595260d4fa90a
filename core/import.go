package core

// Import takes a task over from a data directory of the former format, as it is. A task
// that exists already is left alone.
type Import struct {
	Imported
	// Did are the drops that were carried out on the task. A store remembers them as
	// commands.
	Did []Done
}

func (i Import) decide(d *decision) error {
	if d.task == nil {
		d.emit(i.Imported)
	}
	return nil
}

// ImportAgent takes the state of an agent over. A state that exists already is left
// alone.
type ImportAgent struct{ State AgentState }

func (i ImportAgent) decide(d *decision) error {
	if d.agentState().Version == 0 {
		d.emit(AgentChanged{State: i.State, Why: Observed})
	}
	return nil
}
