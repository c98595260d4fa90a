package drop

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// refused reports whether err is one of the two errors that this package gives
// for bad input, and holds their texts against what the rest relies on.
func refused(t *testing.T, data []byte, err error) {
	t.Helper()
	var syntax *SyntaxError
	var invalid *InvalidError
	switch {
	case errors.As(err, &syntax):
		if syntax.Reason == "" {
			t.Errorf("%q is refused without a reason", data)
		}
	case errors.As(err, &invalid):
		if invalid.Field == "" || invalid.Reason == "" {
			t.Errorf("%q is refused without a field or a reason: %+v", data, invalid)
		}
	default:
		t.Errorf("%q is refused with a %T: %v", data, err, err)
	}
}

func FuzzCreate(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCreate(data)
		if err != nil {
			refused(t, data, err)
			return
		}
		again, err := ParseCreate(c.Encode())
		if err != nil {
			t.Fatalf("%q parses, but what it was encoded to does not: %q: %v", data, c.Encode(), err)
		}
		if !reflect.DeepEqual(again, c) {
			t.Errorf("%q parses to\n%+v\nand encoded and parsed again to\n%+v", data, c, again)
		}
	})
}

func FuzzUpdate(f *testing.F) {
	f.Add([]byte(`{"taskId":"T-00033","status":"blocked","subtasksDone":["a"],"reason":"r","result":"s"}`))
	f.Add([]byte(`{"taskId":"T-00033","note":"n","tag":"note","percent":5,"mentions":["kim"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := ParseUpdate(data)
		if err != nil {
			refused(t, data, err)
			return
		}
		again, err := ParseUpdate(u.Encode())
		if err != nil {
			t.Fatalf("%q parses, but what it was encoded to does not: %q: %v", data, u.Encode(), err)
		}
		if !reflect.DeepEqual(again, u) {
			t.Errorf("%q parses to\n%+v\nand encoded and parsed again to\n%+v", data, u, again)
		}
	})
}

func FuzzObject(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseObject(data)
		if err != nil {
			refused(t, data, err)
			return
		}
		if err := o.Set("_result", 1); err != nil {
			t.Fatal(err)
		}
		again, err := ParseGrown(o.Bytes())
		if err != nil {
			t.Fatalf("%q parses, but with a key set it gives %q: %v", data, o.Bytes(), err)
		}
		if !reflect.DeepEqual(again.members, o.members) {
			t.Errorf("%q has the members %q, and written and parsed again %q", data, o.members, again.members)
		}
		if !bytes.Equal(again.Bytes(), o.Bytes()) {
			t.Errorf("%q is written as %q, and read and written again as %q", data, o.Bytes(), again.Bytes())
		}
	})
}
