package board

import (
	"slices"
)

// A grantReply is the answer of the access methods.
type grantReply struct {
	OK             bool     `json:"ok"`
	FailedUsers    []string `json:"failed_to_update_user_ids,omitempty"`
	FailedChannels []string `json:"failed_to_update_channel_ids,omitempty"`
}

// A grantInput is whom an access method is about: users or channels.
type grantInput struct {
	listID   string
	users    []string
	channels []string
}

func (c *call) grantInput() (grantInput, error) {
	in := grantInput{c.required("list_id"), c.strings("user_ids"), c.strings("channel_ids")}
	if err := c.err(); err != nil {
		return in, err
	}
	if (len(in.users) == 0) == (len(in.channels) == 0) {
		return in, refuse("invalid_parameters", "exactly one of channel_ids and user_ids is needed")
	}
	return in, nil
}

// badIDs handles ids that stand for nobody. A single one is an error; among
// several, one bad id voids the call in silence, as seen live (facts 9, row 17).
func (in grantInput) badIDs() (reply grantReply, void bool, err error) {
	badUser := func(id string) bool { return !isUserID(id) }
	badChannel := func(id string) bool { return !isChannelID(id) }
	reply = grantReply{
		OK:             true,
		FailedUsers:    filter(in.users, badUser),
		FailedChannels: filter(in.channels, badChannel),
	}
	switch {
	case len(reply.FailedUsers)+len(reply.FailedChannels) == 0:
		return reply, false, nil
	case len(in.users) == 1:
		return reply, true, refuse("user_not_found")
	case len(in.channels) == 1:
		return reply, true, refuse("channel_not_found")
	}
	return reply, true, nil
}

func filter(ids []string, keep func(string) bool) []string {
	var kept []string
	for _, id := range ids {
		if keep(id) {
			kept = append(kept, id)
		}
	}
	return kept
}

func (s *Server) accessSet(c *call) (any, error) {
	level := c.required("access_level")
	if level != "" && !slices.Contains(levelOrder[1:], level) {
		c.problem("must be one of read, write, owner: access_level")
	}
	in, err := c.grantInput()
	if err != nil {
		return nil, err
	}
	if level == levelOwner && len(in.users) != 1 {
		return nil, refuse("invalid_parameters", "owner is given to exactly one user")
	}
	return s.changeGrants(c, in, func(l *list) error {
		if level == levelOwner {
			return handOver(l, c.who, in.users[0])
		}
		for _, id := range in.users {
			if id != l.Owner {
				l.Users = granted(l.Users, id, level)
			}
		}
		for _, id := range in.channels {
			l.Channels = granted(l.Channels, id, level)
		}
		return nil
	})
}

// handOver makes the user the owner; the one before keeps write access.
func handOver(l *list, by *Identity, to string) error {
	if l.Owner != by.UserID {
		return refuse("restricted_action", "only the owner can hand over ownership")
	}
	l.Users = granted(l.Users, l.Owner, levelWrite)
	l.Owner = to
	delete(l.Users, to)
	return nil
}

func granted(grants map[string]string, id, level string) map[string]string {
	if grants == nil {
		grants = make(map[string]string)
	}
	grants[id] = level
	return grants
}

func (s *Server) accessDelete(c *call) (any, error) {
	in, err := c.grantInput()
	if err != nil {
		return nil, err
	}
	return s.changeGrants(c, in, func(l *list) error {
		if slices.Contains(in.users, l.Owner) {
			return refuse("restricted_action", "the owner keeps access")
		}
		for _, id := range in.users {
			delete(l.Users, id)
		}
		for _, id := range in.channels {
			delete(l.Channels, id)
		}
		return nil
	})
}

// changeGrants lets change edit the grants of a clone of the list.
func (s *Server) changeGrants(c *call, in grantInput, change func(*list) error) (any, error) {
	reply, void, err := in.badIDs()
	if err != nil {
		return nil, err
	}
	err = s.store.do(c.who.UserID, func(t *tx) error {
		found, err := c.who.readable(t, in.listID)
		if err != nil {
			return err
		}
		if !reaches(c.who.levelOf(found), levelWrite) {
			return refuse("restricted_action")
		}
		if void {
			return nil
		}
		l := found.clone()
		if err := change(l); err != nil {
			return err
		}
		t.putList(l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}
