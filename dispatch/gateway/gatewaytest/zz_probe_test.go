package gatewaytest_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"encoding/json"
	"github.com/coder/websocket"
)

func short(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 420 {
		b = b[:420]
	}
	return string(b)
}

func TestZZProbe(t *testing.T) {
	f := strings.Fields(os.Getenv("PROBE"))
	url := f[0]
	pid, _ := strconv.Atoi(f[1])
	r := dialURL(t, url)
	r.call("connect", r.params(nil))
	key := fmt.Sprintf("q%d", time.Now().UnixNano())
	id := r.ask("agent", run(key, func(p object) { p["message"] = "SLOW sigterm" }))
	fmt.Println(short(r.next(id)))
	time.Sleep(1500*time.Millisecond)
	start := time.Now()
	syscall.Kill(pid, syscall.SIGTERM)
	go func() {
		time.Sleep(500*time.Millisecond)
		_, resp, err := websocket.Dial(t.Context(), url, nil)
		fmt.Println("dial", resp != nil && true, err)
		r.send(`{"type":"req","id":"hh","method":"health"}`)
	}()
	for {
		m, err := r.read()
		if err != nil {
			fmt.Println(time.Since(start), "END", err)
			return
		}
		delete(m.Payload, "result")
		fmt.Println(time.Since(start).Round(time.Millisecond), m.Type, m.Event, m.ID, short(m.Payload), short(m.Error))
	}
}
