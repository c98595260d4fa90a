package slacklist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"otm/pipeline"
)

// CodeOtherStore is our code for a list that belongs to the store of another data
// directory.
const CodeOtherStore = "other_store"

// ownerMark is what stands in a list's description, so that two data directories do not
// work on one list. It names the store, and for people its machine.
var ownerMark = regexp.MustCompile(`OTM store ([A-Z2-7]{26})( on [^\s"\\]*)?`)

// owned reports by an error whether the list belongs to another store. A list that belongs
// to none is marked as ours. Two that mark it at once find out by their next walks.
func (s *schemas) owned(ctx context.Context, list *wireList) error {
	if s.opts.Store == nil || list == nil {
		return nil
	}
	id, host := s.opts.Store()
	blocks, found := others(list)
	switch {
	case id == "" || found != nil && found[1] == id:
		return nil
	case found != nil && !s.opts.TakeOver:
		return &pipeline.BoardError{Method: listUpdate, Code: CodeOtherStore, Class: pipeline.Fatal,
			Message: fmt.Sprintf("the list belongs to the data directory with store %s%s", found[1], found[2])}
	case *s.marked:
		return nil
	case list.Metadata.Blocks == nil: // what we cannot read we would overwrite
		*s.marked = true
		s.opts.Log.Warn("the list does not tell its description: another data directory on the same list is not noticed")
		return nil
	}
	blocks = append(blocks, paragraph(fmt.Sprintf("OTM store %s on %s", id, host)))
	err := s.gate.do(ctx, listUpdate, func() error {
		_, err := s.api.call(ctx, listUpdate, url.Values{"id": {s.opts.ListID}, "description_blocks": {asJSON(blocks)}})
		return err
	})
	var e *pipeline.BoardError
	refused := errors.As(err, &e) && e.Code != "" && e.Code != codeLimited
	if *s.marked = err == nil || refused; refused {
		s.opts.Log.Warn("the list's description does not take the mark of this data directory: another one on the same list is not noticed", "err", err)
	}
	return nil // the next walk tries again
}

// others returns the blocks of a description without a store's mark, and the mark: the
// whole, the id and the machine; nil: there is none.
func others(list *wireList) (blocks []json.RawMessage, mark []string) {
	for _, b := range list.Metadata.Blocks {
		if m := ownerMark.FindStringSubmatch(string(b)); m != nil {
			mark = m
		} else {
			blocks = append(blocks, b)
		}
	}
	if text := list.Metadata.Description; len(list.Metadata.Blocks) == 0 && text != "" {
		if mark = ownerMark.FindStringSubmatch(text); mark == nil {
			blocks = append(blocks, paragraph(text))
		}
	}
	return blocks, mark
}

func paragraph(text string) json.RawMessage {
	return json.RawMessage(asJSON(textField(text).RichText[0]))
}
