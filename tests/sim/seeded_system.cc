#include "tests/sim/seeded_system.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/random.h"

namespace hearth::sim {
namespace {

std::optional<SeededRandom> source;

std::uint32_t next_word() { return static_cast<std::uint32_t>(source->next() >> 32); }

void fill(void* const to, const size_t size) {
  for (std::size_t done = 0; done < size;) {
    const std::uint64_t some = source->next();
    const std::size_t part = std::min(size - done, sizeof(some));
    std::memcpy(static_cast<std::byte*>(to) + done, &some, part);
    done += part;
  }
}

const char* name() { return "seeded"; }

randombytes_implementation seeded = {name, next_word, nullptr, nullptr, fill, nullptr};

}  // namespace

void seed_system_random(std::uint64_t seed) {
  source.emplace(seed);
  INVARIANT(randombytes_set_implementation(&seeded) == 0, "the random source is replaced");
}

}  // namespace hearth::sim
