// The progress of a model file's fetch, kept beside the file so that a killed fetch can continue:
// the ranges written, and the items whose hash was right.
//
// A record has 32 bytes: kind, begin and end (u64), and 8 bytes of a keyed hash over these. The key
// binds the journal to its file. Records of another key, and records from a torn write on, are
// ignored.
#pragma once

#include <boost/icl/interval_set.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/descriptor.h"
#include "base/result.h"

namespace hearth::node {

// Disjoint ranges [begin, end).
class RangeSet {
 public:
  void add(std::uint64_t begin, std::uint64_t end) { ranges_.add({begin, end}); }
  void remove(std::uint64_t begin, std::uint64_t end) { ranges_.subtract({begin, end}); }
  std::uint64_t covered(std::uint64_t begin, std::uint64_t end) const;  // bytes
  // The parts of [begin, end) that are not in the set, in order.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> missing(std::uint64_t begin,
                                                               std::uint64_t end) const;

 private:
  boost::icl::interval_set<std::uint64_t, std::less, boost::icl::right_open_interval<std::uint64_t>>
      ranges_;
};

// One process at a time has a journal open. Not thread-safe.
class FetchJournal {
 public:
  // Waits while another process has it open, and calls `cancelled` ten times a second (kCancelled).
  // kIo.
  static Result<std::unique_ptr<FetchJournal>> open(const std::string& path, const Hash256& key,
                                                    const std::function<bool()>& cancelled);

  const RangeSet& written() const { return written_; }
  bool verified(std::uint64_t item) const { return verified_.contains(item); }
  bool empty() const { return records_ == 0; }

  Status add_written(std::uint64_t begin, std::uint64_t end) {
    return append(Kind::kWritten, begin, end);
  }
  Status forget_written(std::uint64_t begin, std::uint64_t end) {
    return append(Kind::kForgotten, begin, end);
  }
  // To be called once the item's bytes are on the disk.
  Status add_verified(std::uint64_t item) { return append(Kind::kVerified, item, item); }
  Status clear();

 private:
  enum class Kind : std::uint64_t { kWritten = 1, kForgotten = 2, kVerified = 3 };

  FetchJournal(std::string path, const Hash256& key, Descriptor file)
      : path_(std::move(path)), key_(key), file_(std::move(file)) {}
  Status read();
  Status append(Kind kind, std::uint64_t begin, std::uint64_t end);
  bool apply(Kind kind, std::uint64_t begin, std::uint64_t end);
  Error io_error(const std::string& what) const;

  const std::string path_;
  const Hash256 key_;
  const Descriptor file_;
  std::uint64_t records_ = 0;
  RangeSet written_;
  std::set<std::uint64_t> verified_;
};

}  // namespace hearth::node
