// What a process takes of the system, and what it says when the system does not give it.
#pragma once

#include "base/result.h"

namespace hearth::cli {

// From now on a thread, a socket or memory that cannot be had ends the process with a sentence and
// kExitNoCapacity, on whatever thread it happens, instead of std::terminate(). Called by main().
void explain_lack();

// At the start of a server or a worker: keys and prompts get into no core dump, and the process may
// open as many files as it is allowed. kNoCapacity when it can have too few files or threads.
Status prepare_service();

// Gives memory back to the system when much of it is free: an allocator keeps what a flood has made
// it take.
void return_free_memory();

}  // namespace hearth::cli
