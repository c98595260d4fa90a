// Package engine joins the store, the board and the sinks: what every program of ours
// does with the engine.
//
//	Look     reads the board, and takes over what people changed there
//	Deliver  brings renderings, dispatch files and the board to what the store holds
package engine
