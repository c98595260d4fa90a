package board

import (
	"log/slog"
	"net/http"
	"time"
)

// DefaultListen is where the board listens unless told otherwise.
const DefaultListen = "127.0.0.1:18780"

// Who acts where nobody else is named: the API's own bot, and a person of whom
// nothing is known but that it was not the bot.
const (
	BotUser   = "U0OTMBOT"
	HumanUser = "U0HUMAN"
)

// Scopes of Slack that the methods of the board ask for.
const (
	ScopeListsRead  = "lists:read"
	ScopeListsWrite = "lists:write"
	ScopeFilesRead  = "files:read"
	ScopeFilesWrite = "files:write"
	ScopeChatWrite  = "chat:write"
	ScopeHistory    = "channels:history"
)

// Options configures Open. Only Dir is required.
type Options struct {
	// Dir holds the board's files. If it is missing it is made, but its
	// parent must exist, so that a mistyped path is an error.
	Dir string

	// Listen is the address for Listen; the host must be 127.0.0.1, localhost
	// or [::1]. If empty, DefaultListen. If the port is taken, the next free
	// one is used.
	Listen string

	// Identities are callers beside the bot, each with a token of its own.
	Identities []Identity

	// Limits turns rate limits on. If nil, there are none.
	Limits *Limits

	// RowLimit is how many rows, steps counted, a list holds; creating more is
	// answered over_row_maximum. If zero or negative, there is no limit.
	RowLimit int

	// Quirks are behaviours of Slack that are rare, unproven or unpleasant.
	// They can be changed later with SetQuirks.
	Quirks Quirks

	// Log receives the server's log. If nil, nothing is logged.
	Log *slog.Logger

	// Now is the clock. If nil, time.Now.
	Now func() time.Time

	// OnPeopleEdit, if not nil, is called after each edit of a person is
	// durable and visible, by the goroutine that made the edit; also after
	// one over the API by a program that does not name itself as OwnAgent.
	OnPeopleEdit func()

	// OwnAgent is the User-Agent of the client whose edits are not a person's.
	// If empty, nobody's edits over the API are.
	OwnAgent string

	// Page, if not nil, is served at "/", below /lists/ and below /page/, to
	// whoever it lets in. If nil, there is no page.
	Page http.Handler
}

// An Identity is a caller of the API: a token and whom it stands for.
type Identity struct {
	// Token is compared in constant time and must not be empty.
	Token string

	// UserID is what created_by and updated_by show, such as "U0ALICE".
	UserID string

	// Scopes are granted to the token. If nil, all that the board knows.
	Scopes []string

	// Unlimited says that Limits do not count its calls: the page's own.
	Unlimited bool

	// Channels are those whose members include this user: a list shared with
	// one of them is shared with the user.
	Channels []string
}

// Limits are the rate limits of the API, counted by method and token in a
// bucket that holds a minute's worth of calls. The zero value is Slack's tiers
// (facts 1.1: items.list 20 a minute, items.create 50, files.info 100, ...).
type Limits struct {
	// Minute is how long a minute lasts; tests shorten it. If zero, one minute.
	Minute time.Duration

	// PerMinute overrides the number of calls a minute of single methods.
	PerMinute map[string]int
}

// Quirks switch single behaviours on. The zero value is the plain board; each
// field says which fact stands behind it (facts: the research note on Slack
// Lists, by section).
type Quirks struct {
	// VisibleAfter hides a new row from items.list for this long, measured by
	// Options.Now. Facts 5: "row indexing can lag a few seconds" after a
	// create; items.info sees the row at once.
	VisibleAfter time.Duration

	// OmitParentOnCreate leaves parent_record_id out of the answer to the
	// creation of a subtask. Facts 1.6: the documentation's sample omits it.
	OmitParentOnCreate bool

	// OmitListMetadata leaves list_metadata out of slackLists.create's answer.
	// Facts 1.2: it is not among the required outputs.
	OmitListMetadata bool

	// IgnoreIncludeList makes items.list ignore include_list. Facts 3: older
	// tenants may not know the argument.
	IgnoreIncludeList bool

	// RefuseMultiRow refuses an items.update whose cells name more than one
	// row, with invalid_arguments. Facts 5: no public proof that one call may
	// touch several rows.
	RefuseMultiRow bool

	// FirstRowOnly applies only the cells of the first row an items.update
	// names, and still answers ok. Facts 5, as above: a client has to verify
	// a multi-row call by reading.
	FirstRowOnly bool

	// PartialUpdateCells, if positive, makes an items.update with more cells
	// than this apply so many and answer internal_error. Facts 1.1:
	// internal_error means "part of the operation may have succeeded".
	PartialUpdateCells int

	// StrictSubtaskSchema drops, in silence, cells of a subtask in columns
	// outside subtask_schema. Facts 4: Slack's rule is unpublished.
	StrictSubtaskSchema bool

	// FixedAssignees makes the default list's Assignee column refuse names it
	// does not have (invalid_option_id), as Slack would. Otherwise the board
	// adds an option for every well-formed name it is sent.
	FixedAssignees bool

	// PermissionDenied answers a write with mere read access permission_denied,
	// as documented for items.update, instead of the list_not_found that was
	// seen live (facts 9, row 2).
	PermissionDenied bool

	// ArchiveNotSupported answers items.list archived=true with
	// archive_not_supported. Facts 4: it may come back.
	ArchiveNotSupported bool

	// QuietCheckbox leaves the list's updated time alone when only checkboxes
	// change. Facts 7: whether every edit moves file.updated is unproven, and
	// toggles raised no file_change.
	QuietCheckbox bool
}
