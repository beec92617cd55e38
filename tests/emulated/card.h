// The card of the tests that are shared with tests/gpu: here, the emulated one.
#pragma once

#include "tests/emulated/emulator.h"

namespace hearth::card {

using emulated::Input;
using emulated::launches;
using emulated::Memory;
using emulated::set_seed;

}  // namespace hearth::card
