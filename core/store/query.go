package store

import (
	"strconv"
	"strings"
)

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
