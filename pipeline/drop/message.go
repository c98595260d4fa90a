package drop

import (
	"encoding/json"
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
		raw := r.object.Get("percent")
		r.refuse(json.Unmarshal(raw, m.Percent) != nil, "percent", "must be a whole number from 0 to 100, is %.20s", raw)
	}
}

// CheckMessage checks a message against its limits, and cleans its tag and the names that
// it mentions. A message without a text says nothing. The error is an *InvalidError.
func CheckMessage(m *pipeline.Message) error {
	if m.Text == "" && m.Tag == "" && m.Percent == nil && len(m.Mentions) == 0 {
		return nil
	}
	var v verdict
	v.title("note", m.Text)
	if m.Tag != "" {
		tag, ok := pipeline.ParseTag(string(m.Tag))
		v.refuse(!ok, "tag", "is %q: it is one of %s", m.Tag, strings.Join(pipeline.Texts(pipeline.Tags), ", "))
		m.Tag = tag
	}
	if m.Percent != nil {
		v.refuse(*m.Percent < 0 || *m.Percent > 100, "percent", "is %d: it is a whole number from 0 to 100", *m.Percent)
	}
	v.several("mentions", len(m.Mentions), "names")
	m.Mentions = slices.Clone(m.Mentions)
	for i, name := range m.Mentions {
		m.Mentions[i] = pipeline.CleanName(name)
		v.refuse(!pipeline.ValidAgentName(m.Mentions[i]), place("mentions", i), "is %q, which is no name for an agent", name)
	}
	return v.err
}
