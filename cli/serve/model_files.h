// Which file has the model of a manifest: the referee's thread asks, the main thread tells.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

// By the ids of manifests. Any thread.
class ModelFiles {
 public:
  void add(const Hash256& id, const std::string& path) {
    const std::lock_guard lock(mutex_);
    files_[id] = path;
  }
  Result<std::string> find(const Hash256& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(id);
    if (found != files_.end()) return found->second;
    return Error::of(ErrorCode::kUnavailable, "this server has no model ", id.hex());
  }

 private:
  mutable std::mutex mutex_;
  std::map<Hash256, std::string> files_;
};

}  // namespace hearth::cli
