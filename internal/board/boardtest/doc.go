// Package boardtest runs an embedded board for tests, with a layer in front of
// it that makes calls fail in all the ways a remote service does.
//
//	b := boardtest.Start(t)
//	client := slacklist.New(b.URL, b.Token, b.ListID) // any client
//	b.Faults.Next("slackLists.items.create", boardtest.ApplyThenReset())
//	… the client creates a row, loses the answer, looks, finds the row …
//	if n := b.Faults.Count("slackLists.items.create"); n != 1 { … }
//
// Only tests import it.
package boardtest
