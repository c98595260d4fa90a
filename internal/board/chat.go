package board

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// maxMessages bounds the messages in memory; the oldest go first.
const maxMessages = 10_000

// Page sizes of conversations.replies.
const (
	defaultReplies = 100
	maxReplies     = 1000
)

// A chat keeps the messages of all channels; every channel exists. Messages
// live in memory: they are for tests and for people's eyes, nothing rests on
// them.
type chat struct {
	mu       sync.Mutex // guards messages and last
	messages []message  // oldest first, ts rising
	last     time.Time  // of the last ts
}

type message struct {
	channel string
	json    messageJSON
}

type messageJSON struct {
	Type     string          `json:"type"`
	User     string          `json:"user"`
	Text     string          `json:"text"`
	Blocks   json.RawMessage `json:"blocks,omitempty"`
	TS       string          `json:"ts"`
	ThreadTS string          `json:"thread_ts,omitempty"`
	Replies  int             `json:"reply_count,omitempty"`
}

type postReply struct {
	OK      bool        `json:"ok"`
	Channel string      `json:"channel"`
	TS      string      `json:"ts"`
	Message messageJSON `json:"message"`
}

func (s *Server) chatPostMessage(c *call) (any, error) {
	channel := c.required("channel")
	m := messageJSON{Type: "message", User: c.who.UserID, Text: c.text("text"), ThreadTS: c.text("thread_ts")}
	if blocks := c.array("blocks"); blocks != nil {
		m.Blocks = c.raw("blocks")
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	if m.Text == "" && m.Blocks == nil {
		return nil, refuse("no_text")
	}
	if err := s.limiter.take(c.method.name+" "+channel, c.who.Token, 1, time.Second); err != nil {
		return nil, err
	}
	m.TS = s.chat.post(channel, m, s.now())
	return postReply{true, channel, m.TS, m}, nil
}

// post keeps the message and returns its ts, which is unique.
func (c *chat) post(channel string, m messageJSON, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Truncate(time.Microsecond)
	if !now.After(c.last) {
		now = c.last.Add(time.Microsecond)
	}
	c.last = now
	m.TS = secondsOf(now)
	c.messages = append(c.messages, message{channel, m})
	if extra := len(c.messages) - maxMessages; extra > 0 {
		c.messages = slices.Delete(c.messages, 0, extra)
	}
	return m.TS
}

type repliesReply struct {
	OK       bool          `json:"ok"`
	Messages []messageJSON `json:"messages"`
	HasMore  bool          `json:"has_more"`
	Metadata nextCursor    `json:"response_metadata"`
}

func (s *Server) conversationsReplies(c *call) (any, error) {
	channel, ts := c.required("channel"), c.required("ts")
	cursor := c.text("cursor")
	limit := c.number("limit", defaultReplies, 1, maxReplies)
	if err := c.err(); err != nil {
		return nil, err
	}
	thread := s.chat.thread(channel, ts)
	if len(thread) == 0 {
		return nil, refuse("thread_not_found")
	}
	start := slices.IndexFunc(thread, func(m messageJSON) bool { return cursor == "" || m.TS == cursor })
	if start < 0 {
		return nil, refuse("invalid_cursor")
	}
	reply := repliesReply{OK: true, Messages: thread[start:]}
	if len(reply.Messages) > limit {
		reply.HasMore = true
		reply.Metadata.Next = reply.Messages[limit].TS
		reply.Messages = reply.Messages[:limit]
	}
	return reply, nil
}

// thread returns the message and its replies, oldest first.
func (c *chat) thread(channel, ts string) []messageJSON {
	c.mu.Lock()
	defer c.mu.Unlock()
	var thread []messageJSON
	replies, parent := 0, -1
	for _, m := range c.messages {
		if m.channel != channel || m.json.TS != ts && m.json.ThreadTS != ts {
			continue
		}
		if m.json.TS == ts {
			parent = len(thread)
		} else {
			replies++
		}
		thread = append(thread, m.json)
	}
	if parent >= 0 && replies > 0 {
		thread[parent].ThreadTS, thread[parent].Replies = ts, replies
	}
	return thread
}

type authReply struct {
	OK         bool   `json:"ok"`
	URL        string `json:"url"`
	Team       string `json:"team"`
	User       string `json:"user"`
	TeamID     string `json:"team_id"`
	UserID     string `json:"user_id"`
	BotID      string `json:"bot_id,omitempty"`
	Enterprise bool   `json:"is_enterprise_install"`
}

func (s *Server) authTest(c *call) (any, error) {
	reply := authReply{OK: true, URL: c.base, Team: "OTM", User: c.who.UserID, TeamID: teamID, UserID: c.who.UserID}
	if c.who.UserID == BotUser {
		reply.User, reply.BotID = "otm", "B0OTMBOT"
	}
	return reply, nil
}
