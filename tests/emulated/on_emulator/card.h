// The card of the tests that are shared with tests/gpu: here, the emulated one. In a folder of its
// own, since a quoted name is looked for beside the file that names it first.
#pragma once

#include "tests/emulated/emulator.h"

namespace hearth::card {

using emulated::Input;
using emulated::launches;
using emulated::Memory;
using emulated::set_seed;

}  // namespace hearth::card
