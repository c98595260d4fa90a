package drop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"otm/pipeline"
)

// message reads the message of an update, over the defaults in m.
func (r *reader) message(m *pipeline.Message) {
	r.textInto("note", &m.Text, pipeline.MaxText)
	r.textInto("tag", (*string)(&m.Tag), pipeline.MaxText)
	r.textsInto("mentions", &m.Mentions)
	if r.has("percent") {
		m.Percent = new(int)
		if raw := r.object.Get("percent"); json.Unmarshal(raw, m.Percent) != nil {
			r.fail(&InvalidError{Field: "percent", Reason: fmt.Sprintf("must be a whole number from 0 to 100, is %.20s", raw)})
		}
	}
}

// CheckMessage checks a message against its limits, and cleans its tag and the names that
// it mentions. A message without a text says nothing. The error is an *InvalidError.
func CheckMessage(m *pipeline.Message) error {
	if m.Text == "" && m.Tag == "" && m.Percent == nil && len(m.Mentions) == 0 {
		return nil
	}
	if err := checkTitle("note", m.Text); err != nil {
		return err
	}
	if m.Tag != "" {
		tag, ok := pipeline.ParseTag(string(m.Tag))
		if !ok {
			return &InvalidError{Field: "tag", Reason: fmt.Sprintf("is %q: it is one of %s", m.Tag, strings.Join(pipeline.Texts(pipeline.Tags), ", "))}
		}
		m.Tag = tag
	}
	if m.Percent != nil && (*m.Percent < 0 || *m.Percent > 100) {
		return &InvalidError{Field: "percent", Reason: fmt.Sprintf("is %d: it is a whole number from 0 to 100", *m.Percent)}
	}
	if len(m.Mentions) > pipeline.MaxSteps {
		return &InvalidError{Field: "mentions", Reason: fmt.Sprintf("has %d names, more than %d", len(m.Mentions), pipeline.MaxSteps)}
	}
	m.Mentions = slices.Clone(m.Mentions)
	for i, name := range m.Mentions {
		if m.Mentions[i] = pipeline.CleanName(name); !pipeline.ValidAgentName(m.Mentions[i]) {
			return &InvalidError{Field: fmt.Sprintf("mentions[%d]", i), Reason: fmt.Sprintf("is %q, which is no name for an agent", name)}
		}
	}
	return nil
}
