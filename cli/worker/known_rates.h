// Earlier measurements of this machine, stored in the cache folder, so that a restarted worker is
// placed at once.
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
  // Measured at this start. If a machine reads much faster now than at the stored measurement, it
  // was busy then, and the stored values do not count.
  double weight_bytes_per_second = 0.0;
};

// Nothing: unknown, older than 30 days, or measured on a busy machine. Damaged files are unknown.
std::optional<node::StageRate> known_rate(const std::filesystem::path& folder,
                                          const RateSubject& subject, std::int64_t unix_seconds);
// Best effort: values that cannot be stored are measured again.
void keep_rate(const std::filesystem::path& folder, const RateSubject& subject,
               const node::StageRate& rate, std::int64_t unix_seconds);

}  // namespace hearth::cli
