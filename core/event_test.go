package core

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// formsSum is of the fields of all events, and of their envelope.
const formsSum = "7eaacfb08738b40a"

// TestForms fails if the form of an event changes. If a program of the present EventVersion
// would misread events of the new form, raise EventVersion. Then change formsSum.
func TestForms(t *testing.T) {
	t.Parallel()
	var forms strings.Builder
	seen := map[reflect.Type]bool{reflect.TypeFor[time.Time](): true}
	var add func(reflect.Type)
	add = func(r reflect.Type) {
		switch r.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			add(r.Elem())
		case reflect.Struct:
			if seen[r] {
				return
			}
			seen[r] = true
			for i := range r.NumField() {
				f := r.Field(i)
				fmt.Fprintf(&forms, "%v.%s %v %s\n", r, f.Name, f.Type, f.Tag.Get("json"))
				add(f.Type)
			}
		}
	}
	add(reflect.TypeFor[Envelope]())
	for _, k := range kinds {
		data, err := k.decode([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		add(reflect.TypeOf(data))
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(forms.String())))[:16]; sum != formsSum {
		t.Errorf("the forms of events changed: their sum is %s, and not %s", sum, formsSum)
	}
	if _, err := (&Envelope{EventVersion: EventVersion + 1}).Event(); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("an event of the next version: %v", err)
	}
}
