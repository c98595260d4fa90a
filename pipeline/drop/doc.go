// Package drop turns the files that are dropped into an inbox into values, and
// values into files. It knows no directories and reads no files.
//
// Drops are written by language models and by programs that OTM has never
// seen. What is not a JSON object is a *SyntaxError, what is one but not a
// usable create or update is an *InvalidError; both say what to change. Keys
// that OTM does not know are kept and passed over.
package drop
