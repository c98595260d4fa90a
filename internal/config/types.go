package config

import (
	"maps"
	"slices"
	"time"

	"otm/pipeline"
)

// fillTypes reads the tables of types. A missing key has its default.
func (c *Config) fillTypes(f *file, p *problemList) {
	names := map[pipeline.Type]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Types)) {
		table := "types." + name
		kind := pipeline.Type(pipeline.FoldName(name))
		if !pipeline.ValidAgentName(name) {
			p.add(table, "%q is not a name for a type: use at most %d letters, digits, spaces, '.', '-' and '_'", name, pipeline.MaxAgentName)
		} else if other := names[kind]; other != "" {
			p.add(table, "is the same as types.%s: names are compared without case, spaces, - and _", other)
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
			p.add(table+".max_retries", "%d is negative", rules.MaxRetries)
		}
		if t.MaxRuntime != nil {
			rules.MaxRuntime = new(p.duration(table+".max_runtime", *t.MaxRuntime))
		}
		if t.ReclaimAfter != nil {
			rules.ReclaimAfter = p.duration(table+".reclaim_after", *t.ReclaimAfter)
		}
		if t.Silence != nil {
			rules.Silence = []time.Duration{}
			for _, text := range t.Silence {
				rules.Silence = append(rules.Silence, p.duration(table+".silence", text))
			}
			if most := len(pipeline.DefaultTypeRules.Silence); len(rules.Silence) > most {
				p.add(table+".silence", "has %d rungs, there are at most %d", len(rules.Silence), most)
			} else if !slices.IsSorted(rules.Silence) {
				p.add(table+".silence", "each rung must be longer than the one before")
			}
		}
		if c.Types == nil {
			c.Types = pipeline.Types{}
		}
		c.Types[kind] = rules
	}
}

// fillReviewers reads the names of the agents that may review.
func (c *Config) fillReviewers(f *file, p *problemList) {
	for _, name := range f.Review.Agents {
		a := c.Agents.Named(name)
		switch {
		case a == nil:
			p.add("review.agents", "there is no table agents.%s", name)
		case a.Person:
			p.add("review.agents", "%s is a person, and needs no entry", name)
		default:
			c.Reviewers = append(c.Reviewers, a.Name)
		}
	}
}
