package app

// units looks at what otm install wrote; where it wrote nothing, that is a
// choice.
func (d *doctor) units() {
	units, err := d.home.InstalledUnits()
	if err != nil {
		d.explain("units", err)
		return
	}
	for _, u := range units {
		if u.State == UnitCurrent {
			d.say("units", fine, "", "%s", u.Path)
			continue
		}
		d.say("units", poor, u.Hint, "%s is %s", u.Path, u.State)
	}
}
