// What the product has from the operating system's random source (salts and names of audits, keys),
// from a seed, so that a simulation with receipts can be run again. Before anything asks for random
// bytes. For the whole process; one thread.
#pragma once

#include <cstdint>

namespace hearth::sim {

void seed_system_random(std::uint64_t seed);

}  // namespace hearth::sim
