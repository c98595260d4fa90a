package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// reading returns what f reads on a snapshot.
func reading[T any](ctx context.Context, s *Store, f func(tx) (T, error)) (value T, err error) {
	err = s.read(ctx, func(t tx) (err error) {
		value, err = f(t)
		return err
	})
	return value, err
}

// collect returns what scan makes of each row that a query selects.
func collect[T any](t tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// number reads a row of one number.
func number(rows *sql.Rows) (n int64, err error) {
	err = rows.Scan(&n)
	return n, err
}

// query builds the conditions of a query. There are few different texts, because both
// databases keep the statements of them prepared.
type query struct {
	conditions []string
	args       []any
}

// where adds a condition, in which each ? stands for one of the args.
func (q *query) where(condition string, args ...any) {
	var b strings.Builder
	for part := range strings.SplitSeq(condition, "?") {
		if b.Len() > 0 && len(args) > 0 {
			b.WriteString(q.arg(args[0]))
			args = args[1:]
		}
		b.WriteString(part)
	}
	q.conditions = append(q.conditions, b.String())
}

// in adds the condition that a column has one of the values. It repeats the last value
// until their number is a power of two.
func in[T any](q *query, column string, values []T) {
	if len(values) == 0 {
		q.conditions = append(q.conditions, "1 = 0")
		return
	}
	var marks []string
	for i := range values {
		marks = append(marks, q.arg(values[i]))
	}
	for n := len(values); n&(n-1) != 0; n++ {
		marks = append(marks, q.arg(values[len(values)-1]))
	}
	q.conditions = append(q.conditions, column+" IN ("+strings.Join(marks, ", ")+")")
}

// arg adds an argument and returns its mark, such as $2.
func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// text returns the conditions, to follow the names of tables.
func (q *query) text() string {
	if len(q.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(q.conditions, " AND ")
}
