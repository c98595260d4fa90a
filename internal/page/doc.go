// Package page is the web page of the board: what people keep open. It serves
// static files, the state of the board as JSON, what changes as server-sent
// events, and takes people's edits. What it shows and does comes from a Source.
//
// # Who may look
//
// The page listens on loopback, where every local user can reach it, so it
// asks for a session. The link that OTM prints holds a code behind #, which no
// server log and no Referer header sees. It is good for a minute and once: a
// file of its own in the link directory, whose removal is the exchange. What
// it is exchanged for is a cookie, HttpOnly and SameSite=Strict, for 30 days,
// that holds its end and a signature over it.
//
// # What is refused
//
// A Host that is no loopback name (a foreign name that was made to point
// here); a write whose Origin is not the page's own, unless it bears the
// token; a read that the browser says another origin made it send; a session
// that is over. A strict content policy lets the page load its own files only
// and make no markup of text.
//
// # Liveness
//
// One goroutine computes the state when something changed and somebody looks,
// and sends each page what differs. Between two looks it leaves the source in
// peace. A page that cannot keep up is dropped and begins anew with the whole
// state, and so does one that comes with the version of another process.
//
// Where the source cannot be read, the pages are told why, keep what they
// show, and are told again when it can.
//
// # What this does not guarantee
//
// That a page saw every state in between, and that two pages show the same at
// the same moment.
package page
