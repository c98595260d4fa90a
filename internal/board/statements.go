package board

import (
	"database/sql"
	"errors"

	"otm/internal/sqlite"
)

// statements run in one transaction. After one has failed, the others do nothing.
type statements struct {
	sql     *sqlite.Tx
	changed bool
	err     error // of the first statement that failed
}

// exec runs a statement that changes something.
func (s *statements) exec(query string, args ...any) {
	if s.err == nil {
		_, s.err = s.sql.Exec(query, args...)
		s.changed = true
	}
}

// one reads the only value of the query. It returns false if there is none.
func (s *statements) one(value any, query string, args ...any) bool {
	if s.err != nil {
		return false
	}
	err := s.sql.QueryRow(query, args...).Scan(value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.err = err
	}
	return err == nil
}

// each calls fn for each row of the query's result.
func (s *statements) each(fn func(*sql.Rows) error, query string, args ...any) {
	if s.err != nil {
		return
	}
	rows, err := s.sql.Query(query, args...)
	if err != nil {
		s.err = err
		return
	}
	defer rows.Close()
	for rows.Next() {
		if s.err = fn(rows); s.err != nil {
			return
		}
	}
	s.err = rows.Err()
}

// texts returns the texts that the query selects.
func (s *statements) texts(query string, args ...any) (all []string) {
	s.each(func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		all = append(all, text)
		return err
	}, query, args...)
	return all
}

// encode returns v as JSON.
func (s *statements) encode(v any) string {
	raw, err := marshal(v)
	if s.err == nil {
		s.err = err
	}
	return string(raw)
}
