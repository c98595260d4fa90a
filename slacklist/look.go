package slacklist

import (
	"context"
	"slices"
)

// Look reads all rows as they are now. It takes no lock, counts no call and
// leaves the snapshot alone, so it is for a board on this machine that limits
// nothing, and for callers that only show the rows.
func (c *Client) Look(ctx context.Context) (*Snapshot, error) {
	started := c.opts.Now()
	seen := newWalked(started)
	out := &Snapshot{WalkAt: started}
	err := seen.pages(func(cursor string) (*answer, error) {
		p, err := c.api.listPage(ctx, cursor)
		if err != nil || cursor != "" {
			return p, err
		}
		schema, err := parseSchema(p.List, c.columns)
		if err != nil {
			return nil, err
		}
		seen.decoder, seen.expected, out.Limit = newDecoder(schema), schema.Count, schema.Limit
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(seen.rows)
	out.Count, out.Rows = len(seen.rows), plain(seen.rows)
	return out, nil
}
