// What this machine was measured to do earlier, kept in the cache folder, so that a worker that
// starts again is placed at once.
//
// A file for each model, device, thread count and program; plain numbers, one a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "node/engine/stage_rate.h"

namespace hearth::cli {

struct RateSubject {
  std::string model;   // the fingerprint of its file
  std::string device;  // a GPU's name, or an instruction set
  std::uint32_t threads = 0;
  // As measured at this start. A machine that reads much more than when it was measured was busy
  // then: what is known does not count.
  double weight_bytes_per_second = 0.0;
};

// Nothing: unknown, older than 30 days, or measured on a busy machine. Damaged files are unknown.
std::optional<node::StageRate> known_rate(const std::filesystem::path& folder,
                                          const RateSubject& subject, std::int64_t unix_seconds);
// Best effort: what cannot be kept is measured again.
void keep_rate(const std::filesystem::path& folder, const RateSubject& subject,
               const node::StageRate& rate, std::int64_t unix_seconds);

}  // namespace hearth::cli
