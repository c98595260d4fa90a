package app

import (
	"otm/internal/explain"
	"otm/internal/install"
)

// startCommand is the command line that starts what is to run.
func startCommand(dir string, getenv func(string) string) string {
	return startBy(install.Find(dir, getenv), dir, getenv)
}

// startBy is the command line that starts what is to run, by otm install or else
// by hand.
func startBy(o *install.Options, dir string, getenv func(string) string) string {
	if o != nil {
		return o.Again()
	}
	return "otm up" + dirFlag(dir, getenv)
}

// applyHint says how running processes take up a changed otm.toml.
func applyHint(o *install.Options) string {
	if o != nil {
		return "run: " + o.Again()
	}
	return "stop otm up, or what else runs here, and start it again"
}

// units looks at the files that otm install wrote, if it wrote any.
func (d *doctor) units() {
	units, err := install.Look(d.home.Dir, d.home.Getenv)
	if err != nil {
		d.failed("units", err)
		return
	}
	for _, u := range units {
		if u.State == install.Current {
			d.say("units", explain.UnitOK, "path", u.Path)
			continue
		}
		d.say("units", explain.UnitOdd, "path", u.Path, "state", u.State, "hint", u.Hint)
	}
}
