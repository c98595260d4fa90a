package board

import (
	"strings"
)

type filesInfoReply struct {
	OK       bool       `json:"ok"`
	File     *fileJSON  `json:"file"`
	Comments []string   `json:"comments"`
	Metadata nextCursor `json:"response_metadata"`
}

type nextCursor struct {
	Next string `json:"next_cursor"`
}

func (s *Server) filesInfo(c *call) (any, error) {
	id := c.required("file")
	if err := c.err(); err != nil {
		return nil, err
	}
	reply := filesInfoReply{OK: true, Comments: []string{}}
	s.store.view(func(st *state) {
		if _, err := c.who.readable(st, id); err == nil {
			reply.File = s.fileOf(c, st.shelves[id])
		}
	})
	if reply.File == nil {
		return nil, refuse("file_not_found")
	}
	return reply, nil
}

type filesListReply struct {
	OK     bool        `json:"ok"`
	Files  []*fileJSON `json:"files"`
	Paging pagingJSON  `json:"paging"`
}

type pagingJSON struct {
	Count int `json:"count"`
	Total int `json:"total"`
	Page  int `json:"page"`
	Pages int `json:"pages"`
}

// filesList lists the lists the caller may see, newest first; the board has no
// other files.
func (s *Server) filesList(c *call) (any, error) {
	types := strings.Split(c.text("types"), ",")
	count, number := c.number("count", 100, 0, 1000), c.number("page", 1, 0, 1<<20)
	if err := c.err(); err != nil {
		return nil, err
	}
	if count == 0 {
		count = 100
	}
	number = max(number, 1)
	files := []*fileJSON{}
	if wantsLists(types) {
		s.store.view(func(st *state) {
			for _, sh := range st.lists() {
				if c.who.levelOf(sh.list) != levelNone {
					files = append(files, s.fileOf(c, sh))
				}
			}
		})
	}
	total := len(files)
	start := min((number-1)*count, total)
	return filesListReply{
		OK:     true,
		Files:  files[start:min(start+count, total)],
		Paging: pagingJSON{count, total, number, (total + count - 1) / count},
	}, nil
}

func wantsLists(types []string) bool {
	for _, t := range types {
		switch strings.TrimSpace(t) {
		case "", "all", "list", "lists":
			return true
		}
	}
	return false
}

// filesDelete deletes a list with all its rows. The default list stays.
func (s *Server) filesDelete(c *call) (any, error) {
	id := c.required("file")
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.store.do(c.who.UserID, func(t *tx) error {
		l, err := c.who.readable(t, id)
		switch {
		case err != nil:
			return refuse("file_not_found")
		case l.Default || c.who.levelOf(l) != levelOwner:
			return refuse("cant_delete_file")
		}
		t.dropList(id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return okAnswer, nil
}
