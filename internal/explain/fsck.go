package explain

// What otm fsck says. {next} is worked out by the check, which knows what is
// left to go by.
var (
	StoreDiffers  = code("fsck_store_differs", Fail, "the tables say otherwise than the events: {what}", "otm fsck --repair   # rebuilds them, after a backup")
	ArchiveBad    = code("fsck_archive_bad", Fail, "{what}", "{do}")
	RowsTwice     = code("fsck_rows_twice", Fail, "{n} rows bear its id: {rows}", "clear the Task ID of {others} on the board, or delete them")
	RowForeign    = code("fsck_row_foreign", Warn, "the row {title:quoted} bears its id, and is not its row{taken}", "clear the Task ID of that row on the board: it becomes a task of its own")
	RowMissing    = code("fsck_row_missing", Warn, "its row {row} is not on the board", "otm-dispatcher --once   # asks the board whether it was deleted")
	RowIDLost     = code("fsck_row_id_lost", Warn, "the Task ID of its row {title:quoted} {says}", "otm-dispatcher --once   # writes it back, once the row has been left alone for a while")
	StepOrphan    = code("fsck_step_orphan", Warn, "the step {title:quoted} stands under a row that is not there", "delete it on the board")
	StepGone      = code("fsck_step_gone", Warn, "the row of step {n} {title:quoted} is not on the board", "otm-dispatcher --once   # takes it out of the task if the board does not have it")
	StepMoved     = code("fsck_step_moved", Warn, "step {n} {title:quoted} stands under another row", "move it back on the board")
	StepMore      = code("fsck_step_more", Warn, "the step {title:quoted} stands on the board, and the store does not have it", "otm-dispatcher --once")
	RowDiffers    = code("fsck_row_differs", Warn, "the board shows another {what} than the store has: {shows:quoted}, not {is:quoted}", "otm-dispatcher --once")
	TaskUndone    = code("fsck_task_unknown", Fail, "it was brought to the board, and neither board nor store knows it", "{next}")
	UpdateUnknown = code("fsck_update_unknown", Fail, "{drop} was settled as applied, and the store does not know it", "{next}")
	EntryOver     = code("fsck_entry_over", Warn, "it is {status}, and has an entry in {path}", dispatchOnce)
	EntryForeign  = code("fsck_entry_foreign", Warn, "it is {agent}'s, and has an entry of {other}", dispatchOnce)
	EntryTwice    = code("fsck_entry_twice", Warn, "it has {n} entries in {path}", "delete all but one of them in {file:sh}")
	EntryMissing  = code("fsck_entry_missing", Warn, "it is assigned to {agent}, and has no entry in {path}", "otm-dispatcher --once   # puts it back, once redeliver_after has passed")
	EntriesBroken = code("fsck_entries_broken", Warn, "the dispatch file in {path} is not JSON", "otm-dispatcher --once   # sets it aside and begins it anew")
	CounterBad    = code("fsck_counter_bad", Warn, "{error}", "otm fsck --repair")
	CounterBehind = code("fsck_counter_behind", Fail, "it says {next}, and {last} exists", "otm fsck --repair")
	DropWaits     = code("fsck_drop_waits", Warn, "{name} still waits in {inbox}", "otm-injector --once")
	Litter        = code("fsck_litter", Warn, "a crashed writer left {path}", "otm fsck --repair   # removes it")
)
