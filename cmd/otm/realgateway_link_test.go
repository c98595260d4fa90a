package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
)

// trouble is what a link does to the first answer that accepts a wake.
type trouble int

const (
	none    trouble = iota
	lose            // it is lost with the connection
	inflate         // a frame above every limit comes before it
)

// link stands between OTM and the real gateway, for what the gateway cannot be
// made to do. It reads the gateway's frames, which are neither masked nor
// compressed.
type link struct {
	addr, to string
	header   string // put into the upgrade request

	mu      sync.Mutex
	trouble trouble
	left    int // answers that it happens to; negative: all
	made    int // how often it happened
	largest int // frame that the gateway sent
}

func newLink(t *testing.T, g *realGateway) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{addr: l.Addr().String(), to: fmt.Sprintf("127.0.0.1:%d", g.port)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { k.carry(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait() // every client has ended by now
	})
	return k
}

func (k *link) url() string { return "ws://" + k.addr }

// make makes trouble n times, or for good where n is negative.
func (k *link) make(what trouble, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trouble, k.left, k.made = what, n, 0
}

func (k *link) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made
}

// carry carries one connection, until one side ends it.
func (k *link) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() {
		defer server.Close()
		from := bufio.NewReader(client)
		if head, err := readHead(from); err == nil {
			first, rest, _ := strings.Cut(head, "\r\n")
			if _, err := io.WriteString(server, first+"\r\n"+k.header+rest); err == nil {
				io.Copy(server, from)
			}
		}
	})
	k.down(client, bufio.NewReader(server))
	client.Close()
	server.Close()
	up.Wait()
}

// readHead reads the head of a request or of a response, with its empty line.
func readHead(r *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := textproto.NewReader(r).ReadLine()
		if err != nil {
			return "", err
		}
		head.WriteString(line + "\r\n")
		if line == "" {
			return head.String(), nil
		}
	}
}

// down carries what the gateway says.
func (k *link) down(client io.Writer, server *bufio.Reader) {
	head, err := readHead(server)
	if err != nil {
		return
	}
	io.WriteString(client, head)
	if !strings.HasPrefix(head, "HTTP/1.1 101") {
		io.Copy(client, server)
		return
	}
	for {
		raw, payload, err := readFrame(server)
		if err != nil {
			return
		}
		switch k.judge(payload) {
		case lose:
			return
		case inflate:
			const size = 33 << 20
			client.Write(binary.BigEndian.AppendUint64([]byte{0x81, 127}, size))
			if _, err := client.Write(bytes.Repeat([]byte(" "), size)); err != nil {
				return
			}
		}
		if _, err := client.Write(raw); err != nil {
			return
		}
	}
}

func (k *link) judge(payload []byte) trouble {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.largest = max(k.largest, len(payload))
	accepts := bytes.Contains(payload, []byte(`"type":"res"`)) && bytes.Contains(payload, []byte(`"runId":"otm-`))
	if !accepts || k.trouble == none || k.left == 0 {
		return none
	}
	k.left--
	k.made++
	return k.trouble
}

// readFrame reads a WebSocket frame of a server, as it stands and its payload.
func readFrame(r io.Reader) (raw, payload []byte, err error) {
	head := make([]byte, 2, 10)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, err
	}
	size := uint64(head[1] & 0x7f)
	if extra := map[uint64]int{126: 2, 127: 8}[size]; extra > 0 {
		more := make([]byte, 8)
		if _, err := io.ReadFull(r, more[8-extra:]); err != nil {
			return nil, nil, err
		}
		head, size = append(head, more[8-extra:]...), binary.BigEndian.Uint64(more)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(r, payload)
	return append(head, payload...), payload, err
}
