// Package drop turns files in an inbox into values, and values into files. It
// knows no directories and reads no files.
//
// Drops are written by language models and by programs that OTM does not know. A
// file that is not a JSON object is a *SyntaxError. An object that is no usable
// create or update is an *InvalidError. Both say what to change. In files,
// unknown keys are kept and listed in Ignored; in lines of --from they are
// refused.
package drop
