package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/page"
)

// pageDoor knows where the page of a data directory is, and makes links to it.
type pageDoor struct{ home *Home }

func newPageDoor(h *Home) pageDoor { return pageDoor{h} }

// dir is the folder of the unused codes.
func (d pageDoor) dir() string { return filepath.Join(d.home.boardDir(), "page") }

// link adds a new code to the page's address.
func (d pageDoor) link(address string) (string, error) {
	code, err := page.NewLink(d.dir(), d.home.Now())
	if err != nil {
		return "", fmt.Errorf("make a link: %w", err)
	}
	return address + "#code=" + code, nil
}

// print prints a new link to the page that another process serves.
func (d pageDoor) print(out io.Writer) error {
	address, err := d.address()
	if err != nil {
		return err
	}
	if address == "" || !answers(address) {
		return cli.Errorf(cli.TryLater, "no page is running").Hint("otm up")
	}
	link, err := d.link(address)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, link)
	return err
}

// address is where the page should be; "" if none was started.
func (d pageDoor) address() (string, error) {
	address, err := d.announced()
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return address, badAddress(d.home, err)
}

func (d pageDoor) announced() (string, error) {
	if d.home.Config.Slack.ListID == "" {
		endpoint, err := board.ReadEndpoint(d.home.boardDir())
		return endpoint.Page, err
	}
	data, err := durable.ReadFile(d.path())
	if err != nil {
		return "", err
	}
	var a announcement
	if err := json.Unmarshal(data, &a); err != nil {
		return "", fmt.Errorf("read %q: %w", d.path(), err)
	}
	return a.Page, nil
}

// announcement is board/page.json: where the page of a Slack List is.
type announcement struct {
	Page string `json:"page"`
	PID  int    `json:"pid"`
}

func (d pageDoor) path() string { return filepath.Join(d.home.boardDir(), "page.json") }

// announce writes where the page of a Slack List is, durable on return.
func (d pageDoor) announce(address string) error {
	data, _ := json.Marshal(announcement{Page: address, PID: os.Getpid()}) // never fails
	return durable.Replace(d.path(), append(data, '\n'))
}

func (d pageDoor) forget() error {
	err := durable.Remove(d.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
