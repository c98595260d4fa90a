package gateway

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"runtime"
	"strings"
	"testing"
	"time"
)

// FuzzFrame feeds the bytes of one frame to a connection with a call that
// waits. Whatever they are, it neither panics nor blocks, and the call gets at
// most one answer.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1795814904404}}`,
		`{"type":"res","id":"1:k","ok":true,"payload":{"runId":"k","status":"accepted","acceptedAt":1795816192183}}`,
		`{"type":"res","id":"2:k","ok":true,"payload":{"runId":"k","status":"ok","summary":"completed"}}`,
		`{"type":"res","id":"1:k","ok":false,"error":{"code":"UNAVAILABLE","message":"m","retryable":true,"retryAfterMs":1e300,"details":{"reason":"gateway-restarting"}}}`,
		`{"type":"res","id":"1:k","ok":false,"error":{"code":"FORBIDDEN","details":"odd"},"payload":[]}`,
		`{"type":"event","event":"shutdown"}`,
		`{"type":"event","event":"tick","payload":null,"seq":"x"}`,
		strings.Repeat("[", 20000),
		"\xff\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var reported int
		cn := newConn(nil, Server{}, func(end End) {
			if end.RunID == "" || !end.Status.final() {
				t.Errorf("no end: %+v", end)
			}
			reported++
		})
		answer := make(chan frame, 1)
		cn.pending.Store("1:k", answer)
		fr, ok := parseFrame(data)
		if !ok {
			return
		}
		for range 3 { // a repeated frame must not block on a full channel
			cn.handle(fr)
		}
		if len(answer) == 1 {
			reported++
		}
		if reported > 3 {
			t.Errorf("%d answers and ends in three frames", reported)
		}
		_ = fr.refusal().inHandshake().Error()
		_ = fr.refusal().afterHandshake().Error()
		if d := fr.refusal().retryAfter(); d < 0 || d > maxRetryAfter {
			t.Errorf("pause of %v", d)
		}
		cn.end(nil)
	})
}

// The gateway sends up to 25 MiB; the library's own limit is 32 KiB.
func TestDefaultReadLimit(t *testing.T) {
	t.Parallel()
	if got := (Config{}).withDefaults().ReadLimit; got != 32<<20 {
		t.Errorf("read limit %d", got)
	}
}

// The id and key seen on a real gateway belong together.
func TestDeviceID(t *testing.T) {
	t.Parallel()
	const seenID = "3ba1e5f63f303cd4de92c3efaf05204845b1a7aebf3583abdc17774931ed4908"
	const seenKey = "MxhnTfoLFjGWSOr8C8vHt8SvREVkwB2ZHCHxVSqTKSo"
	key, err := base64.RawURLEncoding.DecodeString(seenKey)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(key); hex.EncodeToString(sum[:]) != seenID {
		t.Errorf("id %x, want %s", sum, seenID)
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	d := newDevice()
	ch := challenge{Nonce: "n-1", TS: 1795814904404}
	scopes := []string{"operator.read", "operator.write"}
	text := d.signedText(ch, "tok", scopes)
	if want := "v3|" + d.id + "|gateway-client|backend|operator|operator.read,operator.write|1795814904404|tok|n-1|" + runtime.GOOS + "|"; text != want {
		t.Errorf("signed %q, want %q", text, want)
	}
	device := d.connectParams(ch, "tok", "1.2")["device"].(map[string]any)
	public, _ := base64.RawURLEncoding.DecodeString(device["publicKey"].(string))
	signature, _ := base64.RawURLEncoding.DecodeString(device["signature"].(string))
	if !ed25519.Verify(public, []byte(text), signature) {
		t.Error("the signature does not verify")
	}
	if auth, sent := d.connectParams(ch, "", "1.2")["auth"]; sent || !strings.Contains(d.signedText(ch, "", scopes), "|1795814904404||n-1|") {
		t.Errorf("without a token: %v", auth)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	c := &Client{cfg: Config{}.withDefaults()}
	for _, tt := range []struct {
		n           int
		floor, want time.Duration
	}{
		{0, 0, 500 * time.Millisecond}, {1, 0, time.Second}, {5, 0, 16 * time.Second}, {6, 0, 30 * time.Second}, {1000, 0, 30 * time.Second},
		{0, time.Second, time.Second}, {4, time.Second, 8 * time.Second},
	} {
		if got := c.backoff(tt.n, &Error{RetryAfter: tt.floor}); got != tt.want {
			t.Errorf("backoff(%d, %v): %v, want %v", tt.n, tt.floor, got, tt.want)
		}
	}
}
