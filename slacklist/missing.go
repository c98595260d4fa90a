package slacklist

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"otm/pipeline"
)

// IsGone implements pipeline.Batch. People see an archived row as little as one that is
// deleted.
func (s *Session) IsGone(ctx context.Context, id string) (gone bool, err error) {
	err = s.gate.do(ctx, infoMethod, func() error {
		r, err := s.api.call(ctx, infoMethod, url.Values{"list_id": {s.api.list}, "id": {id}})
		if err == nil {
			gone = r.Record.Archived
		}
		return err
	})
	var e *pipeline.BoardError
	if errors.As(err, &e) && slices.Contains(goneCodes, e.Code) {
		return true, nil
	}
	return gone, err
}

// remove takes rows and their steps out of the snapshot.
func (s *snapshot) remove(ids []string) {
	s.Rows = slices.DeleteFunc(s.Rows, func(r row) bool { return slices.Contains(ids, r.ID) || slices.Contains(ids, r.Parent) })
	s.index = nil
}
