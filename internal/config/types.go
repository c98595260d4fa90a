package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"otm/pipeline"
)

// fillTypes reads the tables of types. A missing key has its default.
func (c *Config) fillTypes(f *file) (problems []string) {
	names := map[pipeline.Type]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Types)) {
		problem := func(key, format string, args ...any) {
			problems = append(problems, fmt.Sprintf("types.%s%s: %s", name, key, fmt.Sprintf(format, args...)))
		}
		kind := pipeline.Type(pipeline.FoldName(name))
		if !pipeline.ValidAgentName(name) {
			problem("", "%q is not a name for a type: use at most %d letters, digits, spaces, '.', '-' and '_'", name, pipeline.MaxAgentName)
		} else if other := names[kind]; other != "" {
			problem("", "is the same as types.%s: names are compared without case, spaces, - and _", other)
		}
		names[kind] = name
		rules, t := pipeline.DefaultTypeRules, f.Types[name]
		if t.Review != nil {
			rules.Review = *t.Review
		}
		if t.MaxRetries != nil {
			rules.MaxRetries = *t.MaxRetries
		}
		if rules.MaxRetries < 0 {
			problem(".max_retries", "%d is negative", rules.MaxRetries)
		}
		read := func(key string, text *string) *time.Duration {
			if text == nil {
				return nil
			}
			d, wrong := duration(*text)
			if wrong != "" {
				problem(key, "%s", wrong)
			}
			return &d
		}
		rules.MaxRuntime = read(".max_runtime", t.MaxRuntime)
		if d := read(".reclaim_after", t.ReclaimAfter); d != nil {
			rules.ReclaimAfter = *d
		}
		if t.Silence != nil {
			rules.Silence = []time.Duration{}
			for i := range t.Silence {
				rules.Silence = append(rules.Silence, *read(".silence", &t.Silence[i]))
			}
			if most := len(pipeline.DefaultTypeRules.Silence); len(rules.Silence) > most {
				problem(".silence", "has %d rungs, there are at most %d", len(rules.Silence), most)
			} else if !slices.IsSorted(rules.Silence) {
				problem(".silence", "each rung must be longer than the one before")
			}
		}
		if c.Types == nil {
			c.Types = pipeline.Types{}
		}
		c.Types[kind] = rules
	}
	return problems
}

// fillReviewers reads the names of the agents that may review.
func (c *Config) fillReviewers(f *file) (problems []string) {
	for _, name := range f.Review.Agents {
		a := c.Agents.Named(name)
		switch {
		case a == nil:
			problems = append(problems, fmt.Sprintf("review.agents: there is no table agents.%s", name))
		case a.Person:
			problems = append(problems, fmt.Sprintf("review.agents: %s is a person, and needs no entry", name))
		default:
			c.Reviewers = append(c.Reviewers, a.Name)
		}
	}
	return problems
}
