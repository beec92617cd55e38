// Unreceipted: counts computed windows without a receipt, by the node that gave none and by the
// request's API key. Bounded: limits::kWorkers names of each kind; more are counted together. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/limits.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

class Unreceipted {
 public:
  // A node without a receipt for so many windows in a row counts as silent until its next one.
  static constexpr std::uint64_t kSilentWindows = 8;

  // `node`: empty when no node is to blame.
  void add(const std::string& node, const std::string& key, std::uint64_t windows) {
    if (windows == 0) return;
    counts_.total += windows;
    count(counts_.by_key, key.empty() ? "no key" : key) += windows;
    if (node.empty()) return;
    count(counts_.by_node, node) += windows;
    if ((count(in_a_row_, node) += windows) >= kSilentWindows) counts_.silent.insert(node);
  }
  void receipted(const std::string& node) {
    in_a_row_.erase(node);
    counts_.silent.erase(node);
  }
  const UnreceiptedStatus& counts() const { return counts_; }

 private:
  using Counts = std::map<std::string, std::uint64_t>;
  static std::uint64_t& count(Counts& counts, const std::string& name) {
    const bool is_full = counts.size() >= limits::kWorkers && !counts.contains(name);
    return counts[is_full ? "others" : name];
  }

  UnreceiptedStatus counts_;
  Counts in_a_row_;
};

}  // namespace hearth::coordinator
