// Package page is the web page of the board. It serves static files, the state
// of the board as JSON, and a stream of changes, and it takes people's edits.
// What it shows and does comes from a Source.
//
// # Who may look
//
// Every local user can reach loopback, so the page asks people to sign in. The
// link that OTM prints holds a code behind #, which no server log and no
// Referer header contains. A code works once, within a minute: removing its file
// is the exchange. The browser gets the pass of this process, and sends it in a
// header of each request.
//
// The pass ends with the process, so a server that later takes this port finds
// nothing of use in the browser; nor does a person stay signed in. Cookies would
// go to every port of this host, also to other users' servers.
//
// # What is refused
//
//   - a Host that is no loopback name: a foreign name that was made to point here
//   - a request that the browser says another origin made it send
//   - a request without the pass, before its body is read
//
// A strict content policy lets the page load its own files only, and turn no
// text into markup.
//
// # Liveness
//
// One goroutine reads the state after a change while a page is open, and sends
// each page what differs. A stream begins with the whole state, also for a page
// that was dropped because it could not keep up, and that reconnects. The stream says something every few seconds, so that a page notices when the
// server hangs.
//
// If the source cannot be read, the pages keep what they show and say why.
//
// # What this does not guarantee
//
// That a page sees every state in between, or that two pages show the same at
// the same moment.
package page
