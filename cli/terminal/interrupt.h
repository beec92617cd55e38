// Ctrl-C for verbs that run in the foreground: the first cancels the current work, a second ends
// the program.
#pragma once

namespace hearth::cli {

void catch_interrupts();  // once, before threads start
bool interrupted();       // since the last clear_interrupt()
void clear_interrupt();
// Called by the second Ctrl-C before it ends the program, inside a signal handler; null: nothing.
void on_forced_end(void (*restore)());

}  // namespace hearth::cli
