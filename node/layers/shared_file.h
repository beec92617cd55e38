// The verified bytes of a model on this machine, for the peers that ask for pieces of it.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "node/layers/fetch_journal.h"
#include "node/layers/model_bytes.h"

namespace hearth::node {

class SharedFile {
 public:
  // Serves these ranges from now on, of the model with this id (model::Manifest::id()).
  void share(const Hash256& model, std::shared_ptr<const ModelBytes> bytes, RangeSet ranges);
  bool holds(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const;
  // kNotFound unless holds().
  Result<Bytes> read(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const;

 private:
  bool has(const Hash256& model, std::uint64_t offset, std::uint64_t bytes) const
      REQUIRES_LOCK(mutex_);

  mutable Mutex mutex_;
  Hash256 model_ GUARDED_BY(mutex_);
  std::shared_ptr<const ModelBytes> bytes_ GUARDED_BY(mutex_);  // null: none
  RangeSet ranges_ GUARDED_BY(mutex_);
};

}  // namespace hearth::node
