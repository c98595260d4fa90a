package board

// teamID is the workspace that the board claims to be.
const teamID = "T0OTM"

// Counters of list_limits.
const (
	maxViews = 50
	// unlimitedRows is what row_count_limit says where nothing limits rows: a
	// number, so that a client that divides by it works.
	unlimitedRows = 1_000_000
)

// A fileJSON is a list as a file: the list object of items.info and the file
// of files.info.
type fileJSON struct {
	ID                string        `json:"id"`
	Created           int64         `json:"created"`
	Timestamp         int64         `json:"timestamp"`
	Name              string        `json:"name"`
	Title             string        `json:"title"`
	Mimetype          string        `json:"mimetype"`
	Filetype          string        `json:"filetype"`
	PrettyType        string        `json:"pretty_type"`
	User              string        `json:"user"`
	UserTeam          string        `json:"user_team"`
	Editable          bool          `json:"editable"`
	Size              int           `json:"size"`
	Mode              string        `json:"mode"`
	IsExternal        bool          `json:"is_external"`
	ExternalType      string        `json:"external_type"`
	IsPublic          bool          `json:"is_public"`
	PublicURLShared   bool          `json:"public_url_shared"`
	DisplayAsBot      bool          `json:"display_as_bot"`
	Username          string        `json:"username"`
	ListMetadata      *metadataJSON `json:"list_metadata"`
	ListLimits        limitsJSON    `json:"list_limits"`
	URLPrivate        string        `json:"url_private"`
	Permalink         string        `json:"permalink"`
	LastEditor        string        `json:"last_editor"`
	CSVDownloadURL    string        `json:"list_csv_download_url"`
	Updated           int64         `json:"updated"`
	EditTimestamp     int64         `json:"edit_timestamp"`
	IsStarred         bool          `json:"is_starred"`
	SkippedShares     bool          `json:"skipped_shares"`
	TeamsSharedWith   []string      `json:"teams_shared_with"`
	RestrictedSharing bool          `json:"is_restricted_sharing_enabled"`
	HasRichPreview    bool          `json:"has_rich_preview"`
	FileAccess        string        `json:"file_access"`
	Access            string        `json:"access"`
	OrgAccess         string        `json:"org_or_workspace_access"`
	IsAISuggested     bool          `json:"is_ai_suggested"`
}

type limitsJSON struct {
	OverRowMaximum        bool `json:"over_row_maximum"`
	RowCountLimit         int  `json:"row_count_limit"`
	RowCount              int  `json:"row_count"`
	ArchivedRowCount      int  `json:"archived_row_count"`
	OverColumnMaximum     bool `json:"over_column_maximum"`
	ColumnCount           int  `json:"column_count"`
	ColumnCountLimit      int  `json:"column_count_limit"`
	OverViewMaximum       bool `json:"over_view_maximum"`
	ViewCount             int  `json:"view_count"`
	ViewCountLimit        int  `json:"view_count_limit"`
	MaxAttachmentsPerCell int  `json:"max_attachments_per_cell"`
}

// fileOf shows the list to the caller. It reads the shelf's counters, so the
// store must be locked for reading.
func (s *Server) fileOf(c *call, sh *shelf) *fileJSON {
	l := sh.list
	created := l.Created.Unix()
	level := c.who.levelOf(l)
	private := c.base + "files-pri/" + teamID + "-" + l.ID
	return &fileJSON{
		ID: l.ID, Created: created, Timestamp: created, Name: "list", Title: l.Name,
		Mimetype: "application/vnd.slack-list", Filetype: "list", PrettyType: "List",
		User: l.Owner, UserTeam: teamID, Editable: reaches(level, levelWrite), Mode: "list",
		ListMetadata: metadataOf(l), ListLimits: s.limitsOf(sh),
		URLPrivate: private + "/list", CSVDownloadURL: private + "/csv/list",
		Permalink:  c.base + "lists/" + teamID + "/" + l.ID,
		LastEditor: sh.editor, Updated: unixOf(sh.updated), EditTimestamp: unixOf(l.Edited),
		SkippedShares: true, TeamsSharedWith: []string{},
		FileAccess: "visible", Access: level, OrgAccess: "none",
	}
}

func (s *Server) limitsOf(sh *shelf) limitsJSON {
	limit := s.opts.RowLimit
	if limit <= 0 {
		limit = unlimitedRows
	}
	columns := len(sh.list.visible())
	return limitsJSON{
		OverRowMaximum: s.opts.RowLimit > 0 && sh.active >= limit, RowCountLimit: limit,
		RowCount: sh.active, ArchivedRowCount: sh.archived,
		OverColumnMaximum: columns > maxColumns, ColumnCount: columns, ColumnCountLimit: maxColumns,
		ViewCount: 1, ViewCountLimit: maxViews, MaxAttachmentsPerCell: maxAttachments,
	}
}
