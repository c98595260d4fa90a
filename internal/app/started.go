package app

import (
	"otm/internal/explain"
	"otm/internal/install"
	"otm/internal/view"
)

// runner is what keeps the components of a directory running: what otm install wrote, or
// else a person.
func (h *Home) runner() view.Runner {
	if o := install.Find(h.Dir, h.Getenv); o != nil {
		return view.Runner{Installed: true, Start: o.Again(), Apply: "run: " + o.Again()}
	}
	return view.Runner{Start: "otm up" + dirFlag(h.Dir, h.Getenv), Apply: "stop otm up, or what else runs here, and start it again"}
}

// startCommand is the command line that starts what is to run.
func (h *Home) startCommand() string { return h.runner().Start }

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
