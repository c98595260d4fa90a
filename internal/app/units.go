package app

// units looks at what otm install wrote.
func (d *doctor) units() {}
