package pipeline

// Rendering is the file tasks/T-00035.json: what otm-create and otm-update check
// against. Nothing else reads it.
type Rendering struct {
	TaskID  TaskID `json:"taskId"`
	Title   string `json:"title"`
	Agent   string `json:"agent"`
	Status  Status `json:"status"`
	Steps   []Step `json:"steps"` // in the order in which they are to be done
	Body    string `json:"body,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Run     int    `json:"run,omitempty"` // to which reports belong: the last that began, or the next if that was canceled or succeeded and the task is out again
}
