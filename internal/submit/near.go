package submit

import (
	"cmp"
	"strings"

	"otm/internal/cli"
	"otm/pipeline"
)

// priorityWords are what people and other tools call our priorities.
var priorityWords = map[string]pipeline.Priority{
	"0": pipeline.Critical, "p0": pipeline.Critical, "asap": pipeline.Critical, "blocker": pipeline.Critical, "emergency": pipeline.Critical,
	"highest": pipeline.Critical, "immediate": pipeline.Critical, "urgent": pipeline.Critical,
	"1": pipeline.High, "p1": pipeline.High, "important": pipeline.High, "major": pipeline.High,
	"3": pipeline.Low, "p3": pipeline.Low, "minor": pipeline.Low, "small": pipeline.Low,
	"4": pipeline.Batchable, "p4": pipeline.Batchable, "background": pipeline.Batchable, "batch": pipeline.Batchable, "lowest": pipeline.Batchable,
	"someday": pipeline.Batchable, "trivial": pipeline.Batchable,
}

// nearPriority is the priority that a word most likely means, else normal.
func nearPriority(word string) string {
	word = strings.ToLower(strings.TrimSpace(word))
	if p := priorityWords[word]; p != "" {
		return string(p)
	}
	return cmp.Or(cli.Nearest(word, []string{
		string(pipeline.Critical), string(pipeline.High), string(pipeline.Normal), string(pipeline.Low), string(pipeline.Batchable),
	}), string(pipeline.Normal))
}

// typeWords are what people and other tools call our types of task.
var typeWords = map[string]pipeline.Type{
	"approval": pipeline.Decision, "approve": pipeline.Decision, "choice": pipeline.Decision, "question": pipeline.Decision,
	"audit": pipeline.Review, "check": pipeline.Review, "qa": pipeline.Review,
}

// nearType is the type that a word most likely means, else action.
func nearType(word string) string {
	word = strings.ToLower(strings.TrimSpace(word))
	if t := typeWords[word]; t != "" {
		return string(t)
	}
	return cmp.Or(cli.Nearest(word, []string{string(pipeline.Action), string(pipeline.Decision), string(pipeline.Review)}), string(pipeline.Action))
}
