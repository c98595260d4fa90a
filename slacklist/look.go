package slacklist

import (
	"context"
	"slices"

	"otm/pipeline"
)

// Look reads all rows as they are now. It takes no lock, counts no call and
// leaves the snapshot alone, so it is for a board on this machine that limits
// nothing, and for who only shows the rows.
func (c *Client) Look(ctx context.Context) (*Snapshot, error) {
	started := c.now()
	w := &walked{started: started, cursors: map[string]bool{}, known: map[string]bool{}}
	out := &Snapshot{WalkAt: started}
	for cursor := ""; ; {
		p, err := c.listPage(ctx, cursor)
		if err != nil {
			return nil, err
		}
		if cursor == "" {
			schema, err := parseSchema(p.list, c.columns)
			if err != nil {
				return nil, err
			}
			w.decoder, out.Limit = newDecoder(schema), schema.Limit
		}
		if err := w.add(p); err != nil {
			return nil, err
		}
		if cursor = p.cursor; cursor == "" {
			break
		}
		if w.cursors[cursor] {
			return nil, unsure("slackLists.items.list", "the cursor does not advance", nil)
		}
		w.cursors[cursor] = true
	}
	slices.Reverse(w.rows)
	out.Count, out.Rows = len(w.rows), make([]pipeline.Row, len(w.rows))
	for i := range w.rows {
		out.Rows[i] = w.rows[i].Row
	}
	return out, nil
}
