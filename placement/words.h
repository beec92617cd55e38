// How plans say figures, and why there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "placement/problem.h"

namespace hearth::placement {

std::string rate_text(double tokens_per_second);
std::string gigabytes(std::uint64_t bytes);

// Why a node holds not even one layer; nothing: it holds one.
std::optional<std::string> why_no_layer(const Problem& problem, std::uint32_t node);

// kNoCapacity, with what is wanted and what there is.
Error no_room(const Problem& problem);

constexpr double kGainLeast = 1.03;  // a change that gains less is not worth a word

// Changes of a plan by what each would give, as sentences.
class Gains {
 public:
  explicit Gains(double tokens_per_second) : before_(tokens_per_second) {}
  void add(const std::string& change, double tokens_per_second);
  std::vector<std::string> largest() const;  // three at most, the largest first

 private:
  const double before_;
  std::vector<std::pair<double, std::string>> all_;
};

}  // namespace hearth::placement
