package slacklist

import (
	"errors"
	"slices"

	"otm/pipeline"
)

// codeLimited is Slack's code for too many calls, and ours for one that we did
// not make because it would be one too many.
const codeLimited = "ratelimited"

// The codes come from Slack's reference pages of the methods we call.
var (
	credentialCodes = []string{"not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired",
		"missing_scope", "not_allowed_token_type", "no_permission", "org_login_required", "two_factor_setup_required",
		"team_access_not_granted", "ekm_access_denied", "access_denied", "accesslimited"}

	// Nothing works until a person changes the configuration or the plan.
	configCodes = []string{"list_not_found", "paid_teams_only", "lists_disabled_user_team", "team_not_found",
		"enterprise_is_restricted", "method_deprecated", "deprecated_endpoint", "unknown_method", "file_not_found", "permission_denied"}

	// An app that may read a list and not write it gets one of these for a write.
	noWriteCodes = []string{"list_not_found", "permission_denied", "file_not_found"}

	// "Part of the operation may have succeeded", says Slack of the first two.
	unsureCodes = []string{"fatal_error", "internal_error", "request_timeout", "service_unavailable", "team_added_to_org"}

	// The columns, their options or the people differ from the schema.
	schemaCodes = []string{"invalid_option_id", "invalid_column_id", "column_not_found", "uneditable_column", "invalid_input_type", "user_not_found"}

	goneCodes = []string{"row_not_found", "invalid_row_id", "record_not_found", "record_deleted"}
)

// writeMethods are those that write. If a call that only reads is refused, that
// says nothing about any row.
var writeMethods = []string{createMethod, updateMethod, deleteMethod, postMethod}

func isWrite(method string) bool { return slices.Contains(writeMethods, method) }

// classify turns the error code of an answer into an error. An unknown code
// counts as a refusal of the cells: it fails one drop, which a person can send
// again, while a wait could hold up all for ever.
func classify(method, code string) *pipeline.BoardError {
	e := &pipeline.BoardError{Method: method, Code: code, Class: pipeline.Refused}
	writes := isWrite(method)
	if !writes {
		e.Class = pipeline.Transient
	}
	switch {
	case code == codeLimited:
		e.Class = pipeline.Transient
	case code == "":
		e.Class, e.MaybeApplied, e.Message = pipeline.Transient, writes, "the answer was neither a success nor an error"
	case slices.Contains(credentialCodes, code):
		e.Class, e.Credentials = pipeline.Fatal, true
	case slices.Contains(configCodes, code):
		e.Class = pipeline.Fatal
	case slices.Contains(unsureCodes, code):
		e.Class, e.MaybeApplied = pipeline.Transient, writes
	case code == "over_row_maximum":
		e.Class, e.Full = pipeline.Transient, true
	case slices.Contains(schemaCodes, code):
		e.Class = pipeline.Transient
	case slices.Contains(goneCodes, code):
		e.RowGone = writes
	}
	return e
}

// isGone reports whether the row of the call does not exist.
func isGone(err error) bool {
	var e *pipeline.BoardError
	return errors.As(err, &e) && e.RowGone
}

// unsure is the error of a call whose outcome is unknown.
func unsure(method, message string, err error) *pipeline.BoardError {
	return &pipeline.BoardError{Method: method, Class: pipeline.Transient, MaybeApplied: isWrite(method), Message: message, Err: err}
}
