// The resources that a process takes of the system, and its errors when the system refuses them.
#pragma once

#include "base/result.h"

namespace hearth::cli {

// From now on, when the system refuses a thread, a socket or memory, the process ends with an error
// message and kExitNoCapacity instead of std::terminate(), on any thread. Called by main().
void explain_lack();

// Called at the start of a server or a worker: turns core dumps off, because they would contain
// keys and prompts, and raises the limit of open files. kNoCapacity when the process may have too
// few files or threads.
Status prepare_service();

// Gives memory back to the system when much of it is free: after a flood of requests, an allocator
// keeps what it took.
void return_free_memory();

}  // namespace hearth::cli
