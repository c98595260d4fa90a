package slacklist

import (
	"context"
	"errors"
	"slices"
	"strings"

	"otm/pipeline"
)

// schemas reads the list's columns, at most once a batch unless they are
// missing.
type schemas struct {
	*batch
	names map[pipeline.Field]string // of the columns, or their ids
	read  bool                      // in this batch

	marked *bool // the mark of our store was written to the list, or refused, by this client
}

func (s *schemas) encoder() *encoder {
	return &encoder{schema: &s.snap.Schema, embedded: s.opts.OpenAssignees}
}

// ensure reads the schema if there is none, or a part of one: without a column,
// a row would be made that nobody finds again.
func (s *schemas) ensure(ctx context.Context) error {
	if s.snap.Schema.complete() {
		return nil
	}
	return s.fetch(ctx)
}

func (s *schemas) fetch(ctx context.Context) error {
	var list *wireList
	err := s.gate.do(ctx, filesMethod, func() (err error) {
		list, err = s.api.fileInfo(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return s.take(ctx, list)
}

// take makes a list object the schema of the snapshot, if the list is our store's.
func (s *schemas) take(ctx context.Context, list *wireList) error {
	if err := s.owned(ctx, list); err != nil {
		return err
	}
	schema, err := parseSchema(list, s.names)
	if err != nil {
		return err
	}
	s.snap.Schema = *schema
	s.dirty, s.read = true, true
	return nil
}

// retry runs a write of cells, with a complete schema, and once more with the schema read anew if the
// board or the encoder finds that a column or an option is not what the cached
// schema says: people rename and rebuild them.
func (s *schemas) retry(ctx context.Context, cells []pipeline.Cell, write func() error) error {
	if err := s.ensure(ctx); err != nil {
		return err
	}
	err := write()
	refused := schemaRefusal(err)
	if refused == nil && !errors.As(err, new(*pipeline.MissingError)) {
		return err
	}
	if !s.read {
		if err := s.fetch(ctx); err != nil {
			return err
		}
		err = write()
		refused = schemaRefusal(err)
	}
	if refused != nil {
		return s.refused(refused, cells)
	}
	return err
}

// schemaRefusal returns the refusal of a column, an option or a person in err;
// nil if there is none.
func schemaRefusal(err error) *pipeline.BoardError {
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok && slices.Contains(schemaCodes, e.Code) {
		return e
	}
	return nil
}

// refused is the error if the board refuses a column, an option or a person
// although the schema has just been read: a person has to act, as with one that
// is missing. The board does not say which of the cells it means.
func (s *schemas) refused(by *pipeline.BoardError, cells []pipeline.Cell) error {
	var names []string
	for _, cell := range cells {
		c := s.snap.Schema.Column(cell.Field)
		if c == nil || by.Code == "invalid_option_id" && !c.isSelect() || by.Code == "user_not_found" && !c.isUser() {
			continue
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return s.snap.Schema.lacks(strings.Join(names, ", "), "is refused: "+by.Error(), "")
}
